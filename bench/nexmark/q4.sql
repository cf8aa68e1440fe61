-- The average price of closed auctions in each category, after the winning bids.
SELECT category, avg(final) AS average
FROM winning
GROUP BY category

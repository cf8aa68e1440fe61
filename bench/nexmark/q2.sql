-- Selects the bids for certain auctions.
SELECT auction, price
FROM bid
WHERE auction % 123 = 0

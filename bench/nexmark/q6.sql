-- The average price of the last ten closed auctions of each seller, after the winning bids. Structured Streaming has no
-- window over rows, so the state has all sales of a seller, and grows with them.
SELECT seller, aggregate(sales, 0D, (total, sale) -> total + sale.final) / size(sales) AS average
FROM (
  SELECT seller, slice(reverse(array_sort(collect_list(struct(expires, auction, final)))), 1, 10) AS sales
  FROM winning
  GROUP BY seller
)

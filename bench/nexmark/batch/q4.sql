SELECT category, avg(final) AS average
FROM (
  SELECT max(bid.price) AS final, auction.category
  FROM auction
  JOIN bid ON auction.id = bid.auction AND bid.dateTime BETWEEN auction.dateTime AND auction.expires
  WHERE auction.expires <= :closed
  GROUP BY auction.id, auction.category
)
GROUP BY category

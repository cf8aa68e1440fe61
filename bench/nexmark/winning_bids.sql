-- The highest bid of each closed auction: the first part of queries 4 and 6. The event time of auctions is the time at
-- which they expire, so the watermark closes them. No auction is open for as long as a second; without this bound the
-- join would keep all bids.
SELECT id AS auction, category, seller, expires, max(price) AS final
FROM (
  SELECT auction.id, auction.category, auction.seller, auction.expires, bid.price
  FROM auction
  JOIN bid ON auction.id = bid.auction
    AND bid.dateTime >= auction.dateTime
    AND bid.dateTime <= auction.expires
    AND auction.expires <= bid.dateTime + INTERVAL 1 SECOND
)
GROUP BY id, category, seller, expires

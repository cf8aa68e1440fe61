-- The highest bids of each ten seconds: all of them if several have the same price. The time of a bid is computed anew,
-- because a join may have only one column with a watermark on each side: the window.
SELECT bids.auction, bids.bidder, bids.price, bids.dateTime, bids.window.end AS endtime
FROM (
  SELECT window(dateTime, '10 seconds') AS window, auction, bidder, price, timestamp_micros(unix_micros(dateTime)) AS dateTime
  FROM bid
) AS bids
JOIN (
  SELECT window(dateTime, '10 seconds') AS window, max(price) AS price
  FROM bid
  GROUP BY window(dateTime, '10 seconds')
) AS highest ON bids.window = highest.window AND bids.price = highest.price

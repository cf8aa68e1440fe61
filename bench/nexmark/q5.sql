-- The auctions with the most bids within ten seconds, every two seconds: all of them if several have as many.
SELECT window.start AS starttime, window.end AS endtime, item.auction, item.bids
FROM (
  SELECT window, explode(filter(items, item -> item.bids = most)) AS item
  FROM (
    SELECT window, max(bids) AS most, collect_list(struct(auction, bids)) AS items
    FROM (
      SELECT window(dateTime, '10 seconds', '2 seconds') AS window, auction, count(*) AS bids
      FROM bid
      GROUP BY window(dateTime, '10 seconds', '2 seconds'), auction
    )
    GROUP BY window
  )
)

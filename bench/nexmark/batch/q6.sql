SELECT seller, average
FROM (
  SELECT seller,
    avg(final) OVER (PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS average,
    row_number() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) AS place
  FROM (
    SELECT auction.id, auction.seller, auction.expires, max(bid.price) AS final
    FROM auction
    JOIN bid ON auction.id = bid.auction AND bid.dateTime BETWEEN auction.dateTime AND auction.expires
    WHERE auction.expires <= :closed
    GROUP BY auction.id, auction.seller, auction.expires
  )
)
WHERE place = 1

-- The persons who registered and opened an auction within the same ten seconds.
SELECT id, name, window.start AS starttime, window.end AS endtime
FROM (
  SELECT DISTINCT persons.id, persons.name, persons.window
  FROM (SELECT id, name, window(dateTime, '10 seconds') AS window FROM person) AS persons
  JOIN (SELECT seller, window(dateTime, '10 seconds') AS window FROM auction) AS auctions
    ON persons.id = auctions.seller AND persons.window = auctions.window
)

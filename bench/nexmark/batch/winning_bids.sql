SELECT auction.id AS auction, category, seller, expires, max(price) AS final
FROM auction
JOIN bid ON auction.id = bid.auction AND bid.dateTime BETWEEN auction.dateTime AND expires
GROUP BY auction.id, category, seller, expires

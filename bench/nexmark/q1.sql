-- Converts the prices of bids from dollars to euros.
SELECT auction, bidder, price * 0.908D AS price, dateTime, extra
FROM bid

-- Passes every bid on: the cost of reading, decoding, encoding and writing.
SELECT auction, bidder, price, dateTime, extra
FROM bid

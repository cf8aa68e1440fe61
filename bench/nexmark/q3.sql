-- Who sells what in three states: a join of two streams without a bound in time, so its state grows with them.
SELECT person.name, person.city, person.state, auction.id
FROM auction
JOIN person ON auction.seller = person.id
WHERE auction.category = 10 AND person.state IN ('OR', 'ID', 'CA')

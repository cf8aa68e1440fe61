"""The transaction coordinator: transactional ids, their producers and transactions, on ``__transaction_state``."""

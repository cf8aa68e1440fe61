"""Who may do what: the decisions that a set of ACLs leads to, with the rule that decides each."""

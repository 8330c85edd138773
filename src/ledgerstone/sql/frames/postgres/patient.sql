-- A migration may take as long as it takes, within the time that the client gives it.
set local statement_timeout = 0;
set local idle_in_transaction_session_timeout = 0;

"""What each setting of a worker means, for the reference page and for messages. Loaded only then.

Settings that brokers have, too, are explained once, in ``common.broker_config_docs``.
"""
# A setting's text is one line, whatever its length.
# ruff: noqa: E501

from __future__ import annotations

from barnabas.common.broker_config_docs import broker_config_doc

__all__ = ["worker_config_doc"]


def worker_config_doc(name: str) -> str | None:
    """The text for a setting; none for an unknown one."""
    return _DOCS.get(name) or broker_config_doc(name)


_DOCS: dict[str, str] = {
    # ---- barnabas's own ----
    "barnabas.connect.anonymous.request.max.bytes": "The longest body of a request whose sender has not shown who it is: that is neither signed by a worker nor of an authenticated user.",
    "barnabas.connect.authentication": "How users of the REST API prove who they are: none, or any of basic, jwt and mtls. Requests between workers are signed instead.",
    "barnabas.connect.console.enable": "Whether the worker serves its web console.",
    "barnabas.connect.fresh.signature.max.age.ms": "How old a signed request of another worker of ours may be: within this time each is let in once.",
    "barnabas.connect.insecure": "Lets a listener beyond this machine go without authentication.",
    "barnabas.connect.jwt.algorithms": "The signature algorithms that a bearer token may have.",
    "barnabas.connect.jwt.audience": "The audience that a bearer token must name; nothing for any.",
    "barnabas.connect.jwt.issuer": "The issuer that a bearer token must name; nothing for any.",
    "barnabas.connect.jwt.keys.file": "A file with the public keys that bearer tokens are checked with: PEM, or a JSON Web Key Set.",
    "barnabas.connect.jwt.roles.claim": "The claim of a bearer token that lists the user's roles.",
    "barnabas.connect.jwt.user.claim": "The claim of a bearer token that names the user.",
    "barnabas.connect.mtls.principal.mapping.rules": "How the distinguished name of a client's certificate becomes the user's name, by the rules of ssl.principal.mapping.rules.",
    "barnabas.connect.plugins": "Connectors without an entry point that this worker loads when it starts, as module:Class. Connectors that are neither listed here nor announced by an entry point of an installed package can't be used.",
    "barnabas.connect.reassign.immediately": "Whether the work of a worker that is gone is handed out at once, where this worker leads the group. With false it waits for scheduled.rebalance.max.delay.ms, as in Kafka.",
    "barnabas.connect.request.max.bytes": "The longest body of a request of an authenticated user, or that another worker has signed.",
    "barnabas.connect.request.memory.max.bytes": "How many bytes of bodies of requests are in memory at a time; a request for which there is no room is answered with 503. At least twice barnabas.connect.request.max.bytes. Senders that have not shown who they are may take half of it.",
    "barnabas.connect.request.wait.ms": "How long a request waits for a rebalance to end before it is answered with 409.",
    "barnabas.connect.require.fresh.signatures": "Whether signed requests must carry the proof, unknown to Java workers, that they are sent for the first time: true, false, or auto, which means where all members of the group are known to send it, by their client.id (barnabas-connect-<host:port> where none is set).",
    "barnabas.connect.roles.admin": "Users that may do everything: create, change and delete connectors, their offsets, and the levels of loggers. * is every authenticated user.",
    "barnabas.connect.roles.operate": "Users that may look, and restart, pause, resume and stop what is there. * is every authenticated user.",
    "barnabas.connect.roles.read": "Users that may only look. * is every authenticated user.",
    "barnabas.connect.spark.avro": "Whether the Spark session has the package for Avro (0.1 MB, fetched once), which connectors with AvroConverter need. A worker one of whose own converters it is has the package anyway.",
    "barnabas.connect.spark.delta": "Whether the Spark session has Delta Lake (7.8 MB, fetched once), which the connector TopicToDelta needs.",
    "barnabas.connect.spark.directory": "The folder of checkpoints, of Spark's log and of its scratch files; nothing for one below the system's temporary folder. Positions are in Kafka, so nothing in it has to outlive the worker. A session on other machines needs a folder that all of them see.",
    "barnabas.connect.spark.master": "Where Spark runs: local[*] or local[N] in this process, spark://host:port on a cluster, or sc://host:port on a Spark Connect server; a server's parameters follow, such as sc://host:port/;use_ssl=true. Settings of the session are barnabas.connect.spark.conf.<Spark's name>.",
    "barnabas.connect.task.restart.max.attempts": "How often a failed task is restarted before it stays failed.",
    "barnabas.connect.task.restart.backoff.max.ms": "The longest pause before such a restart.",
    "barnabas.connect.task.restart.backoff.ms": "The first pause before a failed task is restarted; each further one is twice as long.",
    "barnabas.connect.task.restart.reset.ms": "After running for so long a task has all its restarts again.",
    "barnabas.connect.users.file": "A file with users and hashed passwords for basic authentication, a line each.",
    "barnabas.batch.records.max": "How many records a sink reads in one batch at most. A connector may set it for itself.",
    "barnabas.log.format": "How log lines look: text, or json.",
    "barnabas.log.level": "The least severe messages that are logged.",
    "barnabas.trigger.interval.ms": "How often a task looks for new records. A batch that takes longer is followed by the next one at once. A connector may set it for itself.",
    # ---- the group ----
    "group.id": "The name of the group of workers. Workers of one group share their three topics and their work.",
    "connect.protocol": "How the group spreads work: eager stops everything first, compatible only what moves, and sessioned also signs requests between workers.",
    "session.timeout.ms": "After how long without a heartbeat a worker is taken for dead.",
    "heartbeat.interval.ms": "How often a worker says that it lives. A third of the session timeout is usual.",
    "rebalance.timeout.ms": "How long a rebalance waits for a worker to stop what it runs and to join again.",
    "worker.sync.timeout.ms": "How long a worker that is behind on the config topic tries to catch up before it joins again.",
    "worker.unsync.backoff.ms": "How long a worker that could not catch up stays out of the group.",
    "scheduled.rebalance.max.delay.ms": "How long the work of a worker that disappeared waits for it to come back.",
    "exactly.once.source.support": "Whether source connectors write records and offsets in one transaction. Only disabled is supported: Spark's writer has no transactions.",
    # ---- signed requests ----
    "inter.worker.key.ttl.ms": "After how long the key that signs requests between workers is replaced; 0 for never.",
    "inter.worker.key.generation.algorithm": "The algorithm that this key is generated for.",
    "inter.worker.key.size": "The size of this key in bits; nothing for the algorithm's own.",
    "inter.worker.signature.algorithm": "The algorithm that signs requests to other workers.",
    "inter.worker.verification.algorithms": "The algorithms that a request of another worker may be signed with.",
    # ---- topics ----
    "config.storage.topic": "The topic of connector and task configurations. It has one partition.",
    "config.storage.replication.factor": "Its replication factor when this worker creates it; -1 for the brokers' default.",
    "offset.storage.topic": "The topic of the positions of source connectors.",
    "offset.storage.partitions": "Its partitions when this worker creates it; -1 for the brokers' default.",
    "offset.storage.replication.factor": "Its replication factor when this worker creates it; -1 for the brokers' default.",
    "status.storage.topic": "The topic of what connectors and tasks are doing.",
    "status.storage.partitions": "Its partitions when this worker creates it; -1 for the brokers' default.",
    "status.storage.replication.factor": "Its replication factor when this worker creates it; -1 for the brokers' default.",
    "topic.creation.enable": "Whether topics of source connectors may be created by their topic.creation.* settings.",
    "topic.tracking.enable": "Whether the topics that each connector uses are kept track of.",
    "topic.tracking.allow.reset": "Whether this list of topics may be emptied by a request.",
    # ---- records ----
    "key.converter": "The converter of keys for connectors that don't name one. key.converter.<setting> is for the converter itself.",
    "key.converter.plugin.version": "The version, or range of versions, of that converter.",
    "value.converter": "The converter of values for connectors that don't name one. value.converter.<setting> is for the converter itself.",
    "value.converter.plugin.version": "The version, or range of versions, of that converter.",
    "header.converter": "The converter of headers for connectors that don't name one.",
    "header.converter.plugin.version": "The version, or range of versions, of that converter.",
    # ---- tasks and plugins ----
    "task.shutdown.graceful.timeout.ms": "How long tasks may take to finish their batch when they are stopped, all of them together.",
    "offset.flush.interval.ms": "How often the positions of tasks are written.",
    "offset.flush.timeout.ms": "How long writing them may take.",
    "plugin.path": "Folders with plugins for Java.",
    "plugin.discovery": "How plugins for Java are looked for.",
    "connector.client.config.override.policy": "Which client settings a connector may set as producer.override.*, consumer.override.* and admin.override.*: All, None, Principal (the login only) or Allowlist.",
    "connector.client.config.override.allowlist": "The client settings that the policy Allowlist allows.",
    "config.providers": "Names of providers that fill ${provider:path:key} in settings of the worker and of connectors; config.providers.<name>.class says which each is.",
    # ---- REST ----
    "listeners": "Where the REST API listens, as http://host:port or https://host:port. Without it, and without authentication, a worker listens on this machine only: http://127.0.0.1:8083.",
    "admin.listeners": "Where /admin is served. Nothing: with the rest; an empty list: nowhere.",
    "rest.advertised.host.name": "The host by which other workers reach this one.",
    "rest.advertised.port": "The port by which other workers reach this one.",
    "rest.advertised.listener": "Which listener other workers use: http or https.",
    "access.control.allow.origin": "The origin that scripts in browsers may come from (CORS); nothing for none.",
    "access.control.allow.methods": "The methods that such scripts may use.",
    "response.http.headers.config": "Headers that are added to every answer, as [action] [name]: [value], with commas between; the actions are set, add, setDate and addDate.",
    "rest.extension.classes": "Java classes that extend the REST API.",
    "ssl.client.auth": "Whether users of https listeners must (required), may (requested) or need not (none) show a certificate.",
    # ---- the clients of the cluster ----
    "bootstrap.servers": "Brokers to begin with, as host:port. The others are found by them.",
    "client.id": "The name that brokers know the worker by; nothing for one made of its advertised address.",
    "client.dns.lookup": "How the addresses of a host are used.",
    "security.protocol": "How brokers are spoken to.",
    "sasl.mechanism": "The SASL mechanism to log in to brokers with.",
    "sasl.jaas.config": "The login to brokers, in JAAS form.",
    "sasl.oauthbearer.header.urlencode": "Whether the id and secret for an identity provider are URL-encoded.",
    "send.buffer.bytes": "The size of a socket's send buffer; -1 for the system's.",
    "receive.buffer.bytes": "The size of a socket's receive buffer; -1 for the system's.",
    "request.timeout.ms": "How long a broker may take to answer.",
    "retry.backoff.ms": "The first pause before a failed request is sent again.",
    "retry.backoff.max.ms": "The longest such pause.",
    "reconnect.backoff.ms": "The first pause before a lost connection is opened again.",
    "reconnect.backoff.max.ms": "The longest such pause.",
    "socket.connection.setup.timeout.ms": "How long connecting to a broker may take.",
    "metadata.max.age.ms": "After how long what is known of brokers and topics is asked for again.",
    "metadata.recovery.strategy": "What a client does that reaches none of the brokers it knows: rebootstrap, or none.",
    "metadata.recovery.rebootstrap.trigger.ms": "After how long without metadata it does so.",
}

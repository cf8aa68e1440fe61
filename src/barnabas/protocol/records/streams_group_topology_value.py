"""StreamsGroupTopologyValue (coordinator record value 23): the topology of a streams group."""

from barnabas.protocol.schema import Message, Struct, array, int16, int32, string

__all__ = ["CopartitionGroup", "StreamsGroupTopologyValue", "Subtopology", "TopicConfig", "TopicInfo"]


class TopicConfig(Struct):
    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[TopicConfig] = array(TopicConfig)


class CopartitionGroup(Struct):
    source_topics: list[int] = array("int16")
    source_topic_regex: list[int] = array("int16")
    repartition_source_topics: list[int] = array("int16")


class Subtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array("string")
    source_topic_regex: list[str] = array("string")
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array("string")
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


class StreamsGroupTopologyValue(Message, api_key=23, versions="0", flexible="0+"):
    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Median microseconds to encode Metadata v12 of N topics x 3 partitions with Kafka's own classes. */
public class MetadataCodec {
    public static void main(String[] args) {
        int topics = Integer.parseInt(args[0]);
        MetadataResponseData data = new MetadataResponseData().setClusterId("bench").setControllerId(1);
        data.brokers().add(new MetadataResponseData.MetadataResponseBroker().setNodeId(1).setHost("localhost").setPort(9092));
        for (int t = 0; t < topics; t++) {
            List<MetadataResponseData.MetadataResponsePartition> partitions = new ArrayList<>();
            for (int p = 0; p < 3; p++) {
                partitions.add(new MetadataResponseData.MetadataResponsePartition().setPartitionIndex(p).setLeaderId(1)
                    .setLeaderEpoch(0).setReplicaNodes(List.of(1)).setIsrNodes(List.of(1)).setOfflineReplicas(List.of()));
            }
            data.topics().add(new MetadataResponseData.MetadataResponseTopic().setName(String.format("bench-%06d", t))
                .setTopicId(new Uuid(7, t)).setPartitions(partitions));
        }
        double[] times = new double[200];
        int size = 0;
        for (int round = 0; round < 400; round++) {
            long began = System.nanoTime();
            ObjectSerializationCache cache = new ObjectSerializationCache();
            size = data.size(cache, (short) 12);
            ByteBuffer buffer = ByteBuffer.allocate(size);
            data.write(new ByteBufferAccessor(buffer), cache, (short) 12);
            if (round >= 200) times[round - 200] = (System.nanoTime() - began) / 1000.0;
        }
        java.util.Arrays.sort(times);
        System.out.println(size + " " + times[100]);
    }
}

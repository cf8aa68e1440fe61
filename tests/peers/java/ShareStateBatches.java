import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

/**
 * Combines state batches as Kafka's share coordinator does. Each line of the file is a question: a start offset, the
 * stored batches, the written batches. Each line of the output has the batches of its answer. A batch is its first
 * offset, last offset, delivery state and delivery count.
 */
public final class ShareStateBatches {
    private ShareStateBatches() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] question = line.split("\\|", -1);
            PersisterStateBatchCombiner combiner = new PersisterStateBatchCombiner(
                batches(question[1]), batches(question[2]), Long.parseLong(question[0]));
            out.println(combiner.combineStateBatches().stream().map(ShareStateBatches::shown)
                .collect(Collectors.joining(";")));
        }
    }

    private static List<PersisterStateBatch> batches(String text) {
        List<PersisterStateBatch> found = new ArrayList<>();
        for (String batch : text.isEmpty() ? new String[0] : text.split(";")) {
            String[] numbers = batch.split(",");
            found.add(new PersisterStateBatch(Long.parseLong(numbers[0]), Long.parseLong(numbers[1]),
                Byte.parseByte(numbers[2]), Short.parseShort(numbers[3])));
        }
        return found;
    }

    private static String shown(PersisterStateBatch batch) {
        return batch.firstOffset() + "," + batch.lastOffset() + "," + batch.deliveryState() + ","
            + batch.deliveryCount();
    }
}

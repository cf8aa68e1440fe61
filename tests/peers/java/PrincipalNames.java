import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Prints the names that Java and Kafka derive from a certificate. Each line of the file is a question, each line of
 * the output its answer; texts are UTF-8 in hexadecimal.
 *
 * name DER: the text of a name. map RULES NAME: the principal's name by these rules. A "!" and a class: that
 * exception.
 */
public final class PrincipalNames {
    private PrincipalNames() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String answer;
            try {
                answer = hex(answerTo(line.split(" ", -1)));
            } catch (Exception error) {
                answer = "!" + error.getClass().getSimpleName();
            }
            out.println(answer);
        }
    }

    private static String answerTo(String[] question) throws Exception {
        if (question[0].equals("name")) {
            return new X500Principal(HexFormat.of().parseHex(question[1])).getName();
        }
        return SslPrincipalMapper.fromRules(text(question[1])).getName(text(question[2]));
    }

    private static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }

    private static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}

import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Scanner;

/** For each line (an expression and texts, in Base64): which texts match as a whole, or RE2/J's complaint. */
public class Patterns {
    public static void main(String[] args) {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ", -1);
            StringBuilder answer = new StringBuilder();
            try {
                Pattern pattern = Pattern.compile(decoded(words[0]));
                for (int i = 1; i < words.length; i++) {
                    answer.append(pattern.matches(decoded(words[i])) ? '1' : '0');
                }
            } catch (PatternSyntaxException e) {
                answer.append(e.getMessage());
            }
            System.out.println(Base64.getEncoder().encodeToString(answer.toString().getBytes(StandardCharsets.UTF_8)));
        }
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}

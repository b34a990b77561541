// What the servlet containers Tomcat and Jetty read of a request, and with them Spring.

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.StringJoiner;
import javax.servlet.http.Cookie;
import org.apache.tomcat.util.buf.MessageBytes;
import org.apache.tomcat.util.http.MimeHeaders;
import org.apache.tomcat.util.http.Parameters;
import org.apache.tomcat.util.http.Rfc6265CookieProcessor;
import org.apache.tomcat.util.http.ServerCookies;
import org.eclipse.jetty.http.CookieCompliance;
import org.eclipse.jetty.server.CookieCutter;
import org.eclipse.jetty.util.MultiMap;
import org.eclipse.jetty.util.UrlEncoded;

public final class Servlets {
  private static final String FORM = "application/x-www-form-urlencoded";

  public static void main(String[] arguments) throws Exception {
    java.util.logging.LogManager.getLogManager().reset();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] fields = line.split("\t", -1);
      String name = new String(decoded(fields[0]), StandardCharsets.UTF_8);
      byte[] query = decoded(fields[1]);
      byte[] body = decoded(fields[2]);
      String type = new String(decoded(fields[3]), StandardCharsets.ISO_8859_1);
      byte[] cookie = decoded(fields[4]);
      System.out.println("{\"Tomcat\":" + ofTomcat(name, query, body, type, cookie)
          + ",\"Jetty\":" + ofJetty(name, query, body, type, cookie) + "}");
      System.out.flush();
    }
  }

  /** As Request.parseParameters of Tomcat has it: arguments first, then fields. Spring Boot sets UTF-8 where a form names no charset. */
  private static String ofTomcat(String name, byte[] query, byte[] body, String type, byte[] cookie) {
    boolean isForm = type.split(";", 2)[0].trim().equals(FORM);
    Charset charset = charsetOf(type);
    ServerCookies cookies = new ServerCookies(4);
    MimeHeaders headers = new MimeHeaders();
    if (cookie.length > 0) headers.addValue("Cookie").setBytes(cookie.clone(), 0, cookie.length);
    List<String> found = new ArrayList<>();
    new Rfc6265CookieProcessor().parseCookieHeader(headers, cookies);
    for (int i = 0; i < cookies.getCookieCount(); i++) {
      if (textOf(cookies.getCookie(i).getName()).equals(name)) found.add(textOf(cookies.getCookie(i).getValue()));
    }
    return readings(
        tomcatParameters(name, query, null, charset), tomcatParameters(name, null, isForm ? body : null, charset),
        tomcatParameters(name, query, isForm ? body : null, charset), found);
  }

  private static String textOf(MessageBytes bytes) {
    bytes.getByteChunk().setCharset(StandardCharsets.UTF_8);
    return bytes.toString();
  }

  private static List<String> tomcatParameters(String name, byte[] query, byte[] body, Charset charset) {
    // Tomcat decodes where the bytes are.
    query = query == null ? null : query.clone();
    body = body == null ? null : body.clone();
    Parameters parameters = new Parameters();
    parameters.setCharset(charset);
    parameters.setQueryStringCharset(StandardCharsets.UTF_8);
    if (query != null) {
      MessageBytes bytes = MessageBytes.newInstance();
      bytes.setBytes(query, 0, query.length);
      parameters.setQuery(bytes);
      parameters.handleQueryParameters();
    }
    if (body != null) parameters.processParameters(body, 0, body.length);
    String[] values = parameters.getParameterValues(name);
    return values == null ? List.of() : List.of(values);
  }

  private static String ofJetty(String name, byte[] query, byte[] body, String type, byte[] cookie) {
    boolean isForm = type.split(";", 2)[0].trim().equalsIgnoreCase(FORM);
    MultiMap<String> arguments = new MultiMap<>();
    MultiMap<String> fields = new MultiMap<>();
    MultiMap<String> merged = new MultiMap<>();
    try {
      String written = new String(query, StandardCharsets.ISO_8859_1);
      UrlEncoded.decodeUtf8To(written, 0, written.length(), arguments);
    } catch (RuntimeException error) {
      arguments.clear();
    }
    try {
      if (isForm) UrlEncoded.decodeTo(new ByteArrayInputStream(body), fields, charsetOf(type), -1, 1000);
    } catch (Exception error) {
      fields.clear();
    }
    for (MultiMap<String> each : List.of(arguments, fields)) {
      each.forEach((key, values) -> values.forEach((value) -> merged.add(key, value)));
    }
    CookieCutter cutter = new CookieCutter(CookieCompliance.RFC6265);
    List<String> found = new ArrayList<>();
    if (cookie.length > 0) cutter.addCookieField(new String(cookie, StandardCharsets.ISO_8859_1));
    for (Cookie one : cutter.getCookies()) if (one.getName().equals(name)) found.add(one.getValue());
    return readings(listOf(arguments, name), listOf(fields, name), listOf(merged, name), found);
  }

  private static List<String> listOf(MultiMap<String> values, String name) {
    List<String> found = values.getValues(name);
    return found == null ? List.of() : found;
  }

  private static Charset charsetOf(String type) {
    int at = type.toLowerCase().indexOf("charset=");
    try {
      return at < 0 ? StandardCharsets.UTF_8 : Charset.forName(type.substring(at + 8).split(";", 2)[0].replace("\"", "").trim());
    } catch (IllegalArgumentException error) {
      return StandardCharsets.UTF_8;
    }
  }

  private static String readings(List<String> query, List<String> form, List<String> merged, List<String> cookie) {
    return "{\"query\":" + encoded(query) + ",\"form\":" + encoded(form) + ",\"merged\":" + encoded(merged)
        + ",\"cookie\":" + encoded(cookie) + "}";
  }

  private static String encoded(List<String> values) {
    StringJoiner joined = new StringJoiner(",", "[", "]");
    for (String value : values) {
      byte[] bytes = (value == null ? "" : value).getBytes(StandardCharsets.UTF_8);
      joined.add("\"" + Base64.getEncoder().encodeToString(bytes) + "\"");
    }
    return joined.toString();
  }

  private static byte[] decoded(String field) {
    return Base64.getDecoder().decode(field);
  }
}

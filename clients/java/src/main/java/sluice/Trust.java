// Which certificate authorities are trusted, from a PEM file.
package sluice;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Reads trusted certificates. */
final class Trust {
  private Trust() {}

  static SSLContext of(Path pem) {
    String expected = "a PEM file with at least one certificate";
    if (pem == null) throw Options.wrong("trust", expected, null);
    try (var in = Files.newInputStream(pem)) {
      var trusted = KeyStore.getInstance(KeyStore.getDefaultType());
      trusted.load(null, null);
      int count = 0;
      for (var certificate : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
        trusted.setCertificateEntry("authority-" + count++, certificate);
      }
      if (count == 0) throw Options.wrong("trust", expected, pem + " without one");
      var managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      managers.init(trusted);
      var context = SSLContext.getInstance("TLS");
      context.init(null, managers.getTrustManagers(), null);
      return context;
    } catch (IOException | GeneralSecurityException e) {
      throw Options.wrong("trust", expected, pem + " (" + e + ")");
    }
  }
}

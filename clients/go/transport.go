// The connections to the gateway: no proxy, no compression, HTTP/1.1, and enough of them that nobody waits for one.

package sluice

import (
	"context"
	"net"
	"net/http"
	"time"
)

// newTransport keeps connections for less time than nginx does (75 s), so that nginx does not close one that is about to be used.
func newTransport(s settings) *http.Transport {
	dialer := &net.Dialer{KeepAlive: 15 * time.Second}
	transport := &http.Transport{
		DialContext:         dialer.DialContext,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     30 * time.Second,
	}
	if socket := s.address.socket; socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}
	}
	if s.TLS != nil {
		transport.TLSClientConfig = s.TLS.Clone()
		// A caller that leaves the line closes its connection, which others must not share.
		transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	return transport
}

// Where the gateway is: reads the URL strictly, because a path or a password in it would have no effect.

package sluice

import (
	"fmt"
	"net/url"
	"strconv"
)

type address struct {
	// http or https; http for a unix socket.
	scheme string
	// HOST:PORT as requests name it.
	host string
	// The path of a unix socket; "" without one.
	socket string
}

func readAddress(text string) (address, error) {
	const expected = "http://HOST:PORT, https://HOST:PORT or unix:/PATH"
	wrong := func(got string) (address, error) {
		return address{}, &OptionError{"URL", expected, got}
	}
	if text == "" {
		return wrong("nothing")
	}
	parsed, err := url.Parse(text)
	if err != nil {
		// The text may have a password in it, so the message does not repeat it.
		return wrong("text that is no URL")
	}
	got := fmt.Sprintf("%q", parsed.Redacted())
	if parsed.User != nil || parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "" || parsed.Opaque != "" {
		return wrong(got)
	}
	switch parsed.Scheme {
	case "unix":
		if parsed.Host != "" || len(parsed.Path) < 2 {
			return wrong(got)
		}
		return address{scheme: "http", host: "localhost", socket: parsed.Path}, nil
	case "http", "https":
		if parsed.Hostname() == "" || parsed.Path != "" && parsed.Path != "/" {
			return wrong(got)
		}
		if text := parsed.Port(); text != "" {
			if port, err := strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
				return wrong(got + ", whose port is not from 1 to 65535")
			}
		}
		return address{scheme: parsed.Scheme, host: parsed.Host}, nil
	}
	return wrong(got)
}

// The options of a client, their defaults, and the checks of their values.

package sluice

import (
	"crypto/tls"
	"fmt"
	"time"
)

// Fallback is what is decided when nobody could be asked.
type Fallback string

const (
	// Allow lets callers go on while no gateway answers (fail open).
	Allow Fallback = "allow"
	// Deny refuses while no gateway answers (fail closed).
	Deny Fallback = "deny"
)

// Options of a client. A field that is zero has its default.
type Options struct {
	// URL of the gateway's private listener: http://HOST:PORT, https://HOST:PORT or unix:/PATH.
	URL string
	// Token of a caller.
	Token string
	// Deadline is the longest time from a call to its decision. Acquire and Hold have their maxWait besides. Default: 1 s.
	Deadline time.Duration
	// OnFailure is what is decided when nobody could be asked. Default: Allow.
	OnFailure Fallback
	// MaxBatch is how many checks may share a request, 1 to 100. Default: 50.
	MaxBatch int
	// MaxInFlight is how many requests with shared checks may be under way at once. Default: 2.
	MaxInFlight int
	// RememberRefusals is the longest time for which a refusal is remembered. Negative: not at all. Default: 10 s.
	RememberRefusals time.Duration
	// MaxRemembered is how many refusals are remembered. Default: 10,000.
	MaxRemembered int
	// RetryAfterFailure is for how long after a failure nobody is asked. Negative: not at all. Default: 100 ms.
	RetryAfterFailure time.Duration
	// OnEvent is called once for each decision or error of a call, by the goroutine of the call, and not if the end of its context ended it. A panic in it changes nothing.
	OnEvent func(Event)
	// TLS is used with https, for example with RootCAs. Default: the system's authorities.
	TLS *tls.Config
}

// settings are options that are valid, with their defaults filled in.
type settings struct {
	Options
	address          address
	rememberRefusals time.Duration
	maxRemembered    int
	maxBatch         int
	maxInFlight      int
	pause            time.Duration
}

const mostChecks = 100

func (o Options) settings() (settings, error) {
	address, err := readAddress(o.URL)
	if err != nil {
		return settings{}, err
	}
	if err := checkToken(o.Token); err != nil {
		return settings{}, err
	}
	if o.OnFailure == "" {
		o.OnFailure = Allow
	}
	if o.OnFailure != Allow && o.OnFailure != Deny {
		return settings{}, &OptionError{"OnFailure", `"allow" or "deny"`, fmt.Sprintf("%q", string(o.OnFailure))}
	}
	if o.Deadline < 0 {
		return settings{}, &OptionError{"Deadline", "a time above 0", o.Deadline.String()}
	}
	if o.TLS != nil && address.scheme != "https" {
		return settings{}, &OptionError{"TLS", "nothing, because the URL is not of https", "a configuration"}
	}
	if o.Deadline == 0 {
		o.Deadline = time.Second
	}
	s := settings{Options: o, address: address}
	if s.maxBatch, err = within("MaxBatch", o.MaxBatch, 50, mostChecks); err != nil {
		return settings{}, err
	}
	if s.maxInFlight, err = within("MaxInFlight", o.MaxInFlight, 2, 0); err != nil {
		return settings{}, err
	}
	if s.maxRemembered, err = within("MaxRemembered", o.MaxRemembered, 10_000, 0); err != nil {
		return settings{}, err
	}
	s.rememberRefusals = orNone(o.RememberRefusals, 10*time.Second)
	s.pause = orNone(o.RetryAfterFailure, 100*time.Millisecond)
	return s, nil
}

// within returns the number, or its default if it is 0. Without a most, every positive number is right.
func within(option string, value, byDefault, most int) (int, error) {
	switch {
	case value == 0:
		return byDefault, nil
	case value < 0 && most == 0:
		return 0, &OptionError{option, "an integer from 1", fmt.Sprint(value)}
	case value < 0 || most > 0 && value > most:
		return 0, &OptionError{option, fmt.Sprintf("an integer from 1 to %d", most), fmt.Sprint(value)}
	}
	return value, nil
}

func orNone(value, byDefault time.Duration) time.Duration {
	if value < 0 {
		return 0
	}
	if value == 0 {
		return byDefault
	}
	return value
}

// checkToken says where the token is wrong, and never what it is: errors are logged.
func checkToken(token string) error {
	const expected = "a caller token: visible ASCII characters"
	if token == "" {
		return &OptionError{"Token", expected, "nothing"}
	}
	for i := 0; i < len(token); i++ {
		if token[i] <= ' ' || token[i] >= 0x7f {
			return &OptionError{"Token", expected, fmt.Sprintf("%q as byte %d", token[i:i+1], i+1)}
		}
	}
	return nil
}

// Options and arguments that are wrong, and how callers find out which.

package sluice

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAWrongOptionIsNamedWithWhatWasExpectedAndWhatCame(t *testing.T) {
	right := Options{URL: "http://127.0.0.1:8079", Token: "a-token"}
	for expected, change := range map[string]func(*Options){
		`sluice: URL: expected http://HOST:PORT, https://HOST:PORT or unix:/PATH, got nothing`: func(o *Options) { o.URL = "" },
		`got "ftp://127.0.0.1"`:                                                 func(o *Options) { o.URL = "ftp://127.0.0.1" },
		`got "http://127.0.0.1/path"`:                                           func(o *Options) { o.URL = "http://127.0.0.1/path" },
		`got "http://ann:xxxxx@127.0.0.1"`:                                      func(o *Options) { o.URL = "http://ann:secret@127.0.0.1" },
		`got "http://127.0.0.1:99999", whose port is not from 1 to 65535`:       func(o *Options) { o.URL = "http://127.0.0.1:99999" },
		`got "https://[::1]:65536"`:                                             func(o *Options) { o.URL = "https://[::1]:65536" },
		`got "http://127.0.0.1:0"`:                                              func(o *Options) { o.URL = "http://127.0.0.1:0" },
		`got "unix:relative"`:                                                   func(o *Options) { o.URL = "unix:relative" },
		`Token: expected a caller token: visible ASCII characters, got nothing`: func(o *Options) { o.Token = "" },
		`got "\n" as byte 7`:                                                    func(o *Options) { o.Token = "secret\nX-Header: 1" },
		`OnFailure: expected "allow" or "deny", got "open"`:                     func(o *Options) { o.OnFailure = "open" },
		`Deadline: expected a time above 0, got -1s`:                            func(o *Options) { o.Deadline = -time.Second },
		`MaxBatch: expected an integer from 1 to 100, got 101`:                  func(o *Options) { o.MaxBatch = 101 },
		`MaxBatch: expected an integer from 1 to 100, got -1`:                   func(o *Options) { o.MaxBatch = -1 },
		`MaxInFlight: expected an integer from 1, got -2`:                       func(o *Options) { o.MaxInFlight = -2 },
		`MaxRemembered: expected an integer from 1, got -3`:                     func(o *Options) { o.MaxRemembered = -3 },
	} {
		options := right
		change(&options)
		_, err := New(options)
		var wrong *OptionError
		if !errors.As(err, &wrong) {
			t.Errorf("%s: got %v", expected, err)
			continue
		}
		if !strings.Contains(err.Error(), expected) {
			t.Errorf("expected %q, got %q", expected, err)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the message repeats a secret: %q", err)
		}
	}
}

func TestTheZeroValueOfAnOptionIsItsDefault(t *testing.T) {
	s, err := Options{URL: "http://[::1]:8079/", Token: "a-token"}.settings()
	if err != nil {
		t.Fatal(err)
	}
	if s.Deadline != time.Second || s.OnFailure != Allow || s.maxBatch != 50 || s.maxInFlight != 2 ||
		s.rememberRefusals != 10*time.Second || s.maxRemembered != 10_000 || s.pause != 100*time.Millisecond {
		t.Errorf("got %+v", s)
	}
	s, _ = Options{URL: "unix:/run/sluice.sock", Token: "a-token", RememberRefusals: -1, RetryAfterFailure: -1}.settings()
	if s.rememberRefusals != 0 || s.pause != 0 || s.address.socket != "/run/sluice.sock" {
		t.Errorf("got %+v", s)
	}
}

// JSON would write every byte that is not UTF-8 as the same character, and different keys would share a counter.
func TestAnArgumentThatIsNotUTF8IsAnError(t *testing.T) {
	double := startGateway(t, allow)
	var events []Event
	client := double.client(t, Options{OnEvent: func(event Event) { events = append(events, event) }})
	for expected, call := range map[string]func() error{
		`sluice: key[1]: expected text in UTF-8, got "\xff"`: func() error {
			_, err := client.Check(background, "api", []string{"a", "\xff"})
			return err
		},
		`sluice: policy: expected text in UTF-8, got "\xfd"`: func() error {
			_, err := client.Peek(background, "\xfd", nil)
			return err
		},
		// Half of a pair of UTF-16, written as if it were a character.
		`sluice: plan: expected text in UTF-8, got "\xed\xa0\x80"`: func() error {
			_, err := client.Check(background, "api", nil, Plan("\xed\xa0\x80"))
			return err
		},
		`sluice: key[0]: expected text in UTF-8, got "\xfc"`: func() error {
			_, err := client.CheckAll(background, CheckOf("api", nil), CheckOf("api", []string{"\xfc"}))
			return err
		},
		`sluice: key[0]: expected text in UTF-8, got "\xfa"`: func() error {
			_, err := client.Report(background, "api", []string{"\xfa"})
			return err
		},
		`sluice: plan: expected text in UTF-8, got "\xfe"`: func() error {
			_, err := client.Hold(background, "api", nil, Plan("\xfe"))
			return err
		},
		`sluice: ttl: expected a time from 1ms, got 999µs`: func() error {
			_, err := client.Hold(background, "api", nil, TTL(999*time.Microsecond))
			return err
		},
		`sluice: maxWait: expected a time from 1ms to 60s, got 999µs`: func() error {
			_, err := client.Acquire(background, "api", nil, 999*time.Microsecond)
			return err
		},
		`sluice: maxWait: expected a time from 1ms to 60s, got 1m0.001s`: func() error {
			_, err := client.Hold(background, "api", nil, MaxWait(time.Minute+time.Millisecond))
			return err
		},
		`sluice: checks: expected 1 to 100 checks, got none`: func() error {
			_, err := client.CheckAll(background)
			return err
		},
	} {
		var wrong *OptionError
		events = nil
		if err := call(); !errors.As(err, &wrong) || err.Error() != expected {
			t.Errorf("expected %q, got %v", expected, err)
		}
		if len(events) != 1 || events[0].Outcome != "error" || events[0].Source != "" || events[0].Batch != 0 {
			t.Errorf("%s: expected an event of an error without a request, got %+v", expected, events)
		}
	}
	if requests := double.requests(); len(requests) != 0 {
		t.Errorf("the gateway was asked: %v", requests)
	}
}

func TestAnErrorOfTheGatewayIsFoundByErrorsAs(t *testing.T) {
	client := startGateway(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"code":"policy-not-found","detail":"No such policy.","errors":[{"path":"checks[0].policy","expected":"a policy","got":"\"api\""}]}`))
	}).client(t, Options{})
	_, err := client.Check(background, "api", nil)
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != "policy-not-found" || refused.Status != 404 || len(refused.Errors) != 1 {
		t.Fatalf("got %#v", err)
	}
	if expected := `sluice: 404 policy-not-found: No such policy. policy: expected a policy, got "api".`; err.Error() != expected {
		t.Errorf("expected %q, got %q", expected, err)
	}
}

// For how long nobody is asked after a failure.

package sluice

import (
	"net/http"
	"testing"
	"time"
)

func TestOnlyWholeSecondsAboveZeroChangeThePause(t *testing.T) {
	const usual = 700 * time.Millisecond
	for retryAfter, expected := range map[string]time.Duration{
		"":                     usual,
		"0":                    usual,
		"00":                   usual,
		"-1":                   usual,
		"+3":                   usual,
		"1.5":                  usual,
		"3s":                   usual,
		"soon":                 usual,
		"1":                    time.Second,
		"3":                    3 * time.Second,
		"5":                    5 * time.Second,
		"6":                    5 * time.Second,
		"99999999999":          5 * time.Second,
		"99999999999999999999": 5 * time.Second,
		time.Now().Add(3 * time.Second).UTC().Format(http.TimeFormat): usual,
		"Thu, 01 Jan 1970 00:00:00 GMT":                               usual,
	} {
		client := startGateway(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Retry-After", retryAfter)
			w.WriteHeader(http.StatusServiceUnavailable)
		}).client(t, Options{Deadline: time.Minute, RetryAfterFailure: usual})
		began := time.Now()
		if _, err := client.Peek(background, "api", nil); err != nil {
			t.Fatal(err)
		}
		ended := time.Now()
		// The pause began between these two.
		if until := client.pause.until; until.Before(began.Add(expected)) || until.After(ended.Add(expected)) {
			t.Errorf("Retry-After %q: expected a pause of %v, got one of %v to %v", retryAfter, expected, until.Sub(ended), until.Sub(began))
		}
	}
}

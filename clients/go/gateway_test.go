// A gateway that is slow or refuses as a test wants. The conformance suite uses the real one.

package sluice

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// gatewayDouble is a server that answers as a test wants: cancellation and closing need a gateway that is slow at will.
type gatewayDouble struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

type askedCheck struct {
	Policy string   `json:"policy"`
	Key    []string `json:"key"`
}

func startGateway(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body string)) *gatewayDouble {
	t.Helper()
	double := &gatewayDouble{}
	double.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		double.mu.Lock()
		double.bodies = append(double.bodies, string(body))
		double.mu.Unlock()
		answer(w, r, string(body))
	}))
	t.Cleanup(double.Close)
	return double
}

func (d *gatewayDouble) requests() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.bodies...)
}

func (d *gatewayDouble) client(t *testing.T, options Options) *Client {
	t.Helper()
	options.URL, options.Token = d.URL, "a-token"
	client, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// checksTogether returns checks that share a request from the start, as those do that have waited together.
func checksTogether(count int) []*pending {
	checks := make([]*pending, count)
	for i := range checks {
		check := CheckOf("api", nil)
		body, _ := check.written()
		checks[i] = &pending{check: check, body: body, done: make(chan struct{})}
	}
	return checks
}

func checksIn(body string) []askedCheck {
	var request struct {
		Checks []askedCheck `json:"checks"`
	}
	_ = json.Unmarshal([]byte(body), &request)
	return request.Checks
}

// allow answers that every check is allowed.
func allow(w http.ResponseWriter, _ *http.Request, body string) {
	results := []string{}
	for _, check := range checksIn(body) {
		results = append(results, fmt.Sprintf(`{"policy":%q,"allowed":true,"limit":9,"remaining":8,"retryAfter":0,"resetAfter":1}`, check.Policy))
	}
	fmt.Fprintf(w, `{"allowed":true,"results":[%s]}`, strings.Join(results, ","))
}

// result answers every check with this result.
func result(text string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, body string) {
		results := make([]string, len(checksIn(body)))
		for i := range results {
			results[i] = text
		}
		fmt.Fprintf(w, `{"allowed":false,"results":[%s]}`, strings.Join(results, ","))
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// length is how many checks wait for a place in a request.
func (b *batches) length() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting.Len()
}

// What clients of a service with the middleware hear.

package sluice

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// served sends a request through the middleware, and returns the answer and whether the handler served it.
func served(t *testing.T, client *Client, rule Rule) (*httptest.ResponseRecorder, bool) {
	t.Helper()
	isServed := false
	handler := Limit(client, rule)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { isServed = true }))
	request := httptest.NewRequest("GET", "/orders", nil)
	request.Header.Set("X-App", "acme")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder, isServed
}

var byApp = Rule{
	Policy:  "api",
	Key:     func(r *http.Request) []string { return []string{r.Header.Get("X-App")} },
	Options: func(*http.Request) []CallOption { return []CallOption{Cost(2), Plan("pro")} },
}

func TestTheMiddlewareServesWhatIsAllowed(t *testing.T) {
	double := startGateway(t, allow)
	if _, isServed := served(t, double.client(t, Options{}), byApp); !isServed {
		t.Error("the handler was not called")
	}
	expected := `{"mode":"each","checks":[{"policy":"api","key":["acme"],"cost":2,"plan":"pro"}]}`
	if got := double.requests()[0]; got != expected {
		t.Errorf("expected %s, got %s", expected, got)
	}
}

func TestTheMiddlewareRefusesAsAGatewayDoes(t *testing.T) {
	for _, refusal := range []struct {
		result, retryAfter, title string
		status                    int
	}{
		{`{"policy":"api","allowed":false,"limit":7,"remaining":0,"retryAfter":3,"resetAfter":9}`, "3", "Quota exceeded", 429},
		{`{"policy":"api","allowed":false,"limit":7,"remaining":0,"retryAfter":null,"resetAfter":9}`, "", "Quota exceeded", 429},
		{`{"policy":"api","allowed":false,"reason":"banned"}`, "", "Banned", 403},
		{`{"policy":"api","allowed":false,"reason":"key-missing"}`, "", "Key missing", 403},
		{`{"policy":"api","allowed":false,"reason":"undecided"}`, "1", "Limit cannot be checked", 503},
		{`{"policy":"api"}`, "1", "Limit cannot be checked", 503},
	} {
		client := startGateway(t, result(refusal.result)).client(t, Options{OnFailure: Deny})
		answer, isServed := served(t, client, byApp)
		if isServed {
			t.Errorf("%s: the handler was called", refusal.result)
		}
		var problem struct {
			Type, Title string
			Status      int
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &problem); err != nil {
			t.Fatalf("%v: %s", err, answer.Body)
		}
		if answer.Code != refusal.status || problem.Status != refusal.status || problem.Title != refusal.title || problem.Type == "" ||
			answer.Header().Get("Retry-After") != refusal.retryAfter || answer.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: got %d %v %s", refusal.result, answer.Code, answer.Header(), answer.Body)
		}
	}
}

func TestTheDocumentOfARefusalHasWhatTheReadmeSays(t *testing.T) {
	client := startGateway(t, result(`{"policy":"api","allowed":false,"limit":7,"remaining":0,"retryAfter":3,"resetAfter":9}`)).client(t, Options{})
	answer, _ := served(t, client, byApp)
	expected := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,` +
		`"detail":"Try again in 3 s.","violated-policies":["api"]}` + "\n"
	if got := answer.Body.String(); got != expected {
		t.Errorf("expected %s, got %s", expected, got)
	}
	began := time.Now()
	client = startGateway(t, result(`{"policy":"api","allowed":false,"limit":7,"remaining":0,"retryAfter":86400,"resetAfter":86400}`)).client(t, Options{})
	answer, _ = served(t, client, byApp)
	var problem struct{ Detail string }
	if err := json.Unmarshal(answer.Body.Bytes(), &problem); err != nil {
		t.Fatal(err)
	}
	said, err := time.Parse("Try again at 2006-01-02 15:04:05 UTC.", problem.Detail)
	// The text has whole seconds, rounded up.
	if err != nil || said.Before(began.Add(24*time.Hour)) || said.After(time.Now().Add(24*time.Hour+time.Second)) {
		t.Errorf("got %s, %v", problem.Detail, err)
	}
	client = startGateway(t, result(`{"policy":"api","allowed":false,"reason":"banned"}`)).client(t, Options{})
	answer, _ = served(t, client, byApp)
	expected = `{"type":"about:blank","title":"Banned","status":403,"detail":"Requests of this client are not served."}` + "\n"
	if got := answer.Body.String(); got != expected {
		t.Errorf("expected %s, got %s", expected, got)
	}
}

func TestTheMiddlewareWaitsForTheTurnOfALeakyBucket(t *testing.T) {
	client := startGateway(t, result(`{"policy":"api","allowed":true,"limit":7,"remaining":0,"retryAfter":0,"resetAfter":1,"delay":0.05}`)).client(t, Options{})
	began := time.Now()
	if _, isServed := served(t, client, byApp); !isServed || time.Since(began) < 50*time.Millisecond {
		t.Errorf("served: %v, after %v", isServed, time.Since(began))
	}
}

// Without an answer of the middleware, net/http would answer 200 to a request that nobody has served.
func TestARequestWhoseContextEndsIsRefused(t *testing.T) {
	slow, _, _ := stalled(t)
	for what, answer := range map[string]func(http.ResponseWriter, *http.Request, string){
		"while it is checked":     slow,
		"while it waits its turn": result(`{"policy":"api","allowed":true,"limit":7,"remaining":0,"retryAfter":0,"resetAfter":1,"delay":60}`),
	} {
		client := startGateway(t, answer).client(t, Options{Deadline: time.Minute})
		limited := Limit(client, byApp)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%s: the handler was called", what) }))
		for reason, handler := range map[string]http.Handler{
			"a deadline": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
				defer cancel()
				limited.ServeHTTP(w, r.WithContext(ctx))
			}),
			"a cancelled context": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := context.WithCancel(r.Context())
				time.AfterFunc(20*time.Millisecond, cancel)
				limited.ServeHTTP(w, r.WithContext(ctx))
			}),
		} {
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequest("GET", "/orders", nil))
			if recorder.Code != 503 || recorder.Header().Get("Retry-After") != "1" || recorder.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s, %s: got %d %v %q", what, reason, recorder.Code, recorder.Header(), recorder.Body)
			}
		}
	}
}

func TestAMistakeOfTheRuleIsForItsOwnerAndNotForClients(t *testing.T) {
	client := startGateway(t, allow).client(t, Options{})
	wrong := byApp
	wrong.Key = func(*http.Request) []string { return []string{"\xff"} }
	answer, isServed := served(t, client, wrong)
	if isServed || answer.Code != 500 {
		t.Errorf("served: %v, got %d %s", isServed, answer.Code, answer.Body)
	}
	var heard error
	wrong.OnError = func(w http.ResponseWriter, _ *http.Request, err error) {
		heard = err
		w.WriteHeader(http.StatusTeapot)
	}
	answer, _ = served(t, client, wrong)
	var option *OptionError
	if answer.Code != http.StatusTeapot || !errors.As(heard, &option) {
		t.Errorf("got %d, %v", answer.Code, heard)
	}
}

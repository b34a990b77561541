// A limit in front of an http.Handler: refuses requests as a Sluice gateway does, with Retry-After and a problem document.

package sluice

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Rule says what a request is counted by.
type Rule struct {
	Policy string
	// Key returns one value for each part of the policy's key. Nil: the policy has an empty key.
	Key func(*http.Request) []string
	// Options returns the cost or the plan of a request. Nil: none.
	Options func(*http.Request) []CallOption
	// OnError answers a request that cannot be checked because of a mistake, for example an unknown policy. Nil: status 500, without the
	// error, which is not for clients.
	OnError func(http.ResponseWriter, *http.Request, error)
}

// longestDelay is how long "onLimit: delay" lets a request wait at a gateway. Whoever sent it has given up by then.
const longestDelay = 5 * time.Minute

// Limit returns a middleware that serves a request only if the policy allows it. With a leaky bucket, it waits until it is the request's turn.
// A refusal has status 429; 403 if the key is banned or missing; 503 if nobody could decide, if the request's turn comes in more than five minutes,
// or if the request's context ends before it is served.
func Limit(client *Client, rule Rule) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			decision, err := rule.check(client, r)
			switch {
			case r.Context().Err() != nil:
				// A client that has left hears nothing, but the context may have had a deadline: without an answer, net/http would say 200.
				refuseUnchecked(w)
			case err != nil && rule.OnError != nil:
				rule.OnError(w, r, err)
			case err != nil:
				sendProblem(w, http.StatusInternalServerError, problemDocument{Title: "Limit cannot be checked"})
			case !decision.Allowed:
				refuse(w, decision)
			case decision.Delay > longestDelay:
				refuseUnchecked(w)
			case decision.Delay == 0 || sleep(r.Context(), decision.Delay):
				next.ServeHTTP(w, r)
			default:
				// The context ended before it was the request's turn.
				refuseUnchecked(w)
			}
		})
	}
}

func (rule Rule) check(client *Client, r *http.Request) (Decision, error) {
	var key []string
	if rule.Key != nil {
		key = rule.Key(r)
	}
	var options []CallOption
	if rule.Options != nil {
		options = rule.Options(r)
	}
	return client.Check(r.Context(), rule.Policy, key, options...)
}

// Registered by draft-ietf-httpapi-ratelimit-headers-11.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

type problemDocument struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

func refuse(w http.ResponseWriter, decision Decision) {
	switch decision.Reason {
	case "banned":
		sendProblem(w, http.StatusForbidden, problemDocument{Title: "Banned", Detail: "Requests of this client are not served."})
	case "key-missing":
		detail := fmt.Sprintf("The request lacks an attribute that policy %s counts by.", decision.Policy)
		sendProblem(w, http.StatusForbidden, problemDocument{Title: "Key missing", Detail: detail})
	case "undecided", "failure":
		refuseUnchecked(w)
	default:
		detail := "The request costs more than the limit ever holds."
		if decision.RetryAfter != Never {
			seconds := int64((decision.RetryAfter + time.Second - 1) / time.Second)
			w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
			detail = fmt.Sprintf("Try again %s.", whenIn(seconds))
		}
		violated := []string{decision.Policy}
		sendProblem(w, http.StatusTooManyRequests, problemDocument{quotaExceeded, "Quota exceeded", 0, detail, violated})
	}
}

// A longer wait is told as a moment.
const mostPlainSeconds = 120

// whenIn returns "in 7 s" or "at 2026-12-02 18:57:34 UTC", rounded up.
func whenIn(seconds int64) string {
	if seconds <= mostPlainSeconds {
		return fmt.Sprintf("in %d s", seconds)
	}
	moment := time.Now().UTC().Add(time.Duration(seconds+1)*time.Second - 1)
	return moment.Format("at 2006-01-02 15:04:05 UTC")
}

func refuseUnchecked(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	detail := "The limit of this request cannot be checked at the moment."
	sendProblem(w, http.StatusServiceUnavailable, problemDocument{Title: "Limit cannot be checked", Detail: detail})
}

func sendProblem(w http.ResponseWriter, status int, document problemDocument) {
	if document.Type == "" {
		document.Type = "about:blank"
	}
	document.Status = status
	body, _ := json.Marshal(document)
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

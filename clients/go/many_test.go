// Many goroutines at once.

package sluice

import (
	"context"
	"fmt"
	"math/rand"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Run with -race where cgo is there: callers that come, leave and share requests at the same time.
func TestManyGoroutinesGetTheirOwnDecisions(t *testing.T) {
	double := startGateway(t, func(w http.ResponseWriter, r *http.Request, body string) {
		time.Sleep(time.Duration(rand.Intn(300)) * time.Microsecond)
		// The figures say which check this is the result of.
		results := ""
		for i, check := range checksIn(body) {
			if i > 0 {
				results += ","
			}
			results += fmt.Sprintf(`{"policy":%q,"allowed":true,"limit":%s,"remaining":0,"retryAfter":0,"resetAfter":1}`, check.Policy, check.Key[0])
		}
		fmt.Fprintf(w, `{"allowed":true,"results":[%s]}`, results)
	})
	var events atomic.Int64
	client := double.client(t, Options{
		Deadline: time.Minute,
		OnEvent: func(Event) {
			if events.Add(1)%2 == 0 {
				panic("a hook that panics changes nothing")
			}
		},
	})
	const callers, each = 100, 50
	var all sync.WaitGroup
	var cancelled atomic.Int64
	for caller := 0; caller < callers; caller++ {
		all.Add(1)
		go func(caller int) {
			defer all.Done()
			for i := 0; i < each; i++ {
				number := int64(caller*each + i)
				ctx, cancel := context.WithCancel(background)
				if i%10 == 9 {
					time.AfterFunc(time.Duration(rand.Intn(2000))*time.Microsecond, cancel)
				}
				decision, err := client.Check(ctx, "api", []string{fmt.Sprint(number)})
				switch {
				case err == context.Canceled && i%10 == 9:
					cancelled.Add(1)
				case err != nil:
					t.Error(err)
				case decision.Limit != number || decision.Source != FromGateway:
					t.Errorf("expected the decision of %d, got %+v", number, decision)
				}
				cancel()
			}
		}(caller)
	}
	all.Wait()
	if events.Load() != callers*each-cancelled.Load() {
		t.Errorf("expected an event for each call that is not cancelled, got %d and %d cancelled", events.Load(), cancelled.Load())
	}
	if requests := len(double.requests()); requests >= callers*each/2 {
		t.Errorf("expected that calls share requests, got %d requests", requests)
	}
	t.Logf("%d requests, %d cancelled", len(double.requests()), cancelled.Load())
}

// Contexts that end while a call is under way or waits.

package sluice

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

var background = context.Background()

// stalled returns an answer that waits until the caller goes or the test lets it go on, and the number of callers that have gone.
func stalled(t *testing.T) (answer func(http.ResponseWriter, *http.Request, string), gone chan string, goOn chan struct{}) {
	gone, goOn = make(chan string, 100), make(chan struct{})
	t.Cleanup(func() {
		select {
		case <-goOn:
		default:
			close(goOn)
		}
	})
	return func(w http.ResponseWriter, r *http.Request, body string) {
		select {
		case <-r.Context().Done():
			gone <- body
		case <-goOn:
			allow(w, r, body)
		}
	}, gone, goOn
}

// ended waits for the error of a call.
func ended(t *testing.T, what string, result <-chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(10 * time.Second):
		t.Fatalf("not within 10 s: %s", what)
		return nil
	}
}

func TestTheEndOfAContextEndsACallAndClosesItsConnection(t *testing.T) {
	calls := map[string]func(context.Context, *Client) error{
		"check":    func(ctx context.Context, c *Client) error { _, err := c.Check(ctx, "api", nil); return err },
		"checkAll": func(ctx context.Context, c *Client) error { _, err := c.CheckAll(ctx, CheckOf("api", nil)); return err },
		"peek":     func(ctx context.Context, c *Client) error { _, err := c.Peek(ctx, "api", nil); return err },
		"report":   func(ctx context.Context, c *Client) error { _, err := c.Report(ctx, "api", nil); return err },
		"acquire": func(ctx context.Context, c *Client) error {
			_, err := c.Acquire(ctx, "api", nil, time.Minute)
			return err
		},
		"hold": func(ctx context.Context, c *Client) error {
			_, err := c.Hold(ctx, "api", nil, MaxWait(time.Minute))
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			answer, gone, _ := stalled(t)
			double := startGateway(t, answer)
			var events atomic.Int64
			client := double.client(t, Options{Deadline: time.Minute, OnEvent: func(Event) { events.Add(1) }})
			ctx, cancel := context.WithCancel(background)
			result := make(chan error, 1)
			go func() { result <- call(ctx, client) }()
			eventually(t, "the gateway is asked", func() bool { return len(double.requests()) == 1 })
			cancel()
			if err := ended(t, "the call ends", result); err != context.Canceled {
				t.Errorf("expected context.Canceled, got %v", err)
			}
			select {
			case <-gone:
			case <-time.After(10 * time.Second):
				t.Error("the connection stays open, and the gateway keeps the place")
			}
			// A caller that leaves is no failure of the gateway.
			if failure := client.pause.now(); failure != nil {
				t.Errorf("nobody is asked any more: %s", failure.sentence)
			}
			if err := call(ctx, client); err != context.Canceled {
				t.Errorf("expected context.Canceled, got %v", err)
			}
			if events.Load() != 0 {
				t.Errorf("expected no event, because nothing is decided, got %d", events.Load())
			}
		})
	}
}

func TestADeadlineOfAContextIsAnErrorAndNoDecision(t *testing.T) {
	answer, _, _ := stalled(t)
	var events atomic.Int64
	client := startGateway(t, answer).client(t, Options{Deadline: time.Minute, OnEvent: func(Event) { events.Add(1) }})
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	if _, err := client.Check(ctx, "api", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("expected context.DeadlineExceeded, got %v", err)
	}
	if _, err := client.Peek(ctx, "api", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("expected context.DeadlineExceeded, got %v", err)
	}
	if events.Load() != 0 {
		t.Errorf("expected no event, got %d", events.Load())
	}
}

func TestAContextThatHasEndedAsksNobody(t *testing.T) {
	double := startGateway(t, allow)
	client := double.client(t, Options{})
	ctx, cancel := context.WithCancel(background)
	cancel()
	if _, err := client.Check(ctx, "api", nil); err != context.Canceled {
		t.Errorf("expected context.Canceled, got %v", err)
	}
	if requests := double.requests(); len(requests) != 0 {
		t.Errorf("the gateway was asked: %v", requests)
	}
}

func TestACancelledCheckLeavesTheQueueAndTheOthersGo(t *testing.T) {
	answer, _, goOn := stalled(t)
	double := startGateway(t, answer)
	client := double.client(t, Options{Deadline: time.Minute, MaxInFlight: 1})
	check := func(ctx context.Context, key string) chan error {
		result := make(chan error, 1)
		go func() { _, err := client.Check(ctx, "api", []string{key}); result <- err }()
		return result
	}
	first := check(background, "first")
	eventually(t, "the first is under way", func() bool { return len(double.requests()) == 1 })
	ctx, cancel := context.WithCancel(background)
	leaves := check(ctx, "leaves")
	stays := check(background, "stays")
	eventually(t, "two wait", func() bool { return client.batches.length() == 2 })
	cancel()
	if err := ended(t, "the cancelled check ends", leaves); err != context.Canceled {
		t.Errorf("expected context.Canceled, got %v", err)
	}
	if length := client.batches.length(); length != 1 {
		t.Errorf("expected one in the queue, got %d", length)
	}
	close(goOn)
	if err := ended(t, "the first ends", first); err != nil {
		t.Error(err)
	}
	if err := ended(t, "the last ends", stays); err != nil {
		t.Error(err)
	}
	if asked := checksIn(double.requests()[1]); len(asked) != 1 || asked[0].Key[0] != "stays" {
		t.Errorf("expected the check that stays, got %v", asked)
	}
}

func TestACheckThatLeavesASharedRequestDoesNotEndIt(t *testing.T) {
	asked := make(chan struct{}, 10)
	goOn := make(chan struct{})
	double := startGateway(t, func(w http.ResponseWriter, r *http.Request, body string) {
		asked <- struct{}{}
		<-goOn
		allow(w, r, body)
	})
	client := double.client(t, Options{Deadline: time.Minute})
	checks := checksTogether(2)
	client.batches.inFlight++
	go client.batches.run(newBatch(checks))
	<-asked
	if left, abandoned := client.batches.leave(checks[0], false); !left || abandoned != nil {
		t.Errorf("expected that the request goes on, got %v, %v", left, abandoned)
	}
	close(goOn)
	select {
	case <-checks[1].done:
	case <-time.After(10 * time.Second):
		t.Fatal("the other check is not decided")
	}
	if !checks[1].decision.Allowed || checks[1].batchSize != 2 {
		t.Errorf("got %+v", checks[1].decision)
	}
}

// Without the order of these two, the queue would be asked in the moment between the end of the request and the beginning of the pause.
func TestAPassedDeadlineDecidesTheQueueBeforeItIsAsked(t *testing.T) {
	for i := 0; i < 10; i++ {
		answer, _, _ := stalled(t)
		double := startGateway(t, answer)
		client := double.client(t, Options{Deadline: 100 * time.Millisecond, MaxInFlight: 1, RetryAfterFailure: time.Minute, OnFailure: Deny})
		result := make(chan Decision, 2)
		for _, key := range []string{"first", "second"} {
			go func(key string) {
				decision, _ := client.Check(background, "api", []string{key})
				result <- decision
			}(key)
			time.Sleep(5 * time.Millisecond)
		}
		for range [2]int{} {
			if decision := <-result; decision.Allowed || decision.Source != FromFailure {
				t.Errorf("expected a refusal by failure, got %+v", decision)
			}
		}
		// None at all if the machine was too busy for the first.
		if requests := double.requests(); len(requests) > 1 {
			t.Errorf("expected at most one request, got %v", requests)
		}
	}
}

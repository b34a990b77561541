// What is left after Close and after Release: nothing.

package sluice

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestCallsAfterCloseAreErrors(t *testing.T) {
	double := startGateway(t, allow)
	client := double.client(t, Options{})
	client.Close()
	client.Close()
	calls := map[string]error{}
	_, calls["check"] = client.Check(background, "api", nil)
	_, calls["checkAll"] = client.CheckAll(background, CheckOf("api", nil))
	_, calls["peek"] = client.Peek(background, "api", nil)
	_, calls["report"] = client.Report(background, "api", nil)
	_, calls["acquire"] = client.Acquire(background, "api", nil, time.Second)
	_, calls["hold"] = client.Hold(background, "api", nil)
	for call, err := range calls {
		if err != ErrClosed {
			t.Errorf("%s: expected ErrClosed, got %v", call, err)
		}
	}
	if requests := double.requests(); len(requests) != 0 {
		t.Errorf("the gateway was asked: %v", requests)
	}
}

func TestCloseLeavesNoGoroutineAndNoConnection(t *testing.T) {
	release := make(chan struct{})
	double := startGateway(t, func(w http.ResponseWriter, r *http.Request, body string) {
		switch r.URL.Path {
		case holdPath:
			fmt.Fprint(w, `{"policy":"slots","allowed":true,"hold":"a","ttl":300}`)
		default:
			<-release
			allow(w, r, body)
		}
	})
	before := runtime.NumGoroutine()
	client := double.client(t, Options{Deadline: time.Minute})
	for i := 0; i < 20; i++ {
		if held, err := client.Hold(background, "slots", nil); err != nil || held.Hold == nil {
			t.Fatalf("got %+v, %v", held, err)
		}
	}
	var all sync.WaitGroup
	for i := 0; i < 50; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if decision, err := client.Check(background, "api", nil); err != nil || decision.Source != FromGateway {
				t.Errorf("a call that was under way: got %+v, %v", decision, err)
			}
		}()
	}
	eventually(t, "two requests are under way, and the others wait", func() bool {
		return len(double.requests()) == 22 && client.batches.length() == 48
	})
	client.Close()
	close(release)
	all.Wait()
	eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

func TestAHoldThatACloseLeftIsLostAfterItsTTL(t *testing.T) {
	client := startGateway(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		fmt.Fprint(w, `{"policy":"slots","allowed":true,"hold":"a","ttl":1}`)
	}).client(t, Options{})
	held, err := client.Hold(background, "slots", nil)
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	select {
	case <-held.Hold.Lost():
		t.Error("lost before its ttl")
	case <-time.After(100 * time.Millisecond):
	}
	select {
	case <-held.Hold.Lost():
	case <-time.After(10 * time.Second):
		t.Error("whoever waits for the loss never hears of it")
	}
	if err := held.Hold.Release(background); err != ErrClosed {
		t.Errorf("expected ErrClosed, got %v", err)
	}
}

func TestAReleasedHoldIsNeverLost(t *testing.T) {
	client := startGateway(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.URL.Path == releasePath {
			fmt.Fprint(w, `{"released":true}`)
			return
		}
		fmt.Fprint(w, `{"policy":"slots","allowed":true,"hold":"a","ttl":1}`)
	}).client(t, Options{})
	held, err := client.Hold(background, "slots", nil)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := 0; i < 10; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := held.Hold.Release(background); err != nil {
				t.Error(err)
			}
		}()
	}
	all.Wait()
	client.Close()
	select {
	case <-held.Hold.Lost():
		t.Error("a hold that was released is lost")
	case <-time.After(1200 * time.Millisecond):
	}
}

func TestReleaseObeysItsContext(t *testing.T) {
	client := startGateway(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.URL.Path == holdPath {
			fmt.Fprint(w, `{"policy":"slots","allowed":true,"hold":"a","ttl":300}`)
			return
		}
		<-r.Context().Done()
	}).client(t, Options{Deadline: time.Minute})
	held, err := client.Hold(background, "slots", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	if err := held.Hold.Release(ctx); err != context.DeadlineExceeded {
		t.Errorf("expected context.DeadlineExceeded, got %v", err)
	}
}

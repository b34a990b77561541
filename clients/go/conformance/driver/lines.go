// The lines of the tests: a client, calls, events, load.

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	sluice "sluice/client"
)

type line struct {
	Client *clientLine `json:"client"`
	Do     []call      `json:"do"`
	Events bool        `json:"events"`
	Load   *loadLine   `json:"load"`
}

type clientLine struct {
	URL                 string   `json:"url"`
	Token               string   `json:"token"`
	DeadlineMs          *float64 `json:"deadlineMs"`
	OnFailure           string   `json:"onFailure"`
	MaxBatch            *int     `json:"maxBatch"`
	MaxInFlight         *int     `json:"maxInFlight"`
	RememberRefusalsMs  *float64 `json:"rememberRefusalsMs"`
	MaxRemembered       *int     `json:"maxRemembered"`
	RetryAfterFailureMs *float64 `json:"retryAfterFailureMs"`
	CAFile              string   `json:"caFile"`
}

type message struct {
	Error string `json:"error"`
}

type driver struct {
	client *sluice.Client

	mu     sync.Mutex
	events []event
	holds  map[string]*sluice.Hold
}

type event struct {
	Call    string        `json:"call"`
	Policy  string        `json:"policy"`
	Outcome string        `json:"outcome"`
	Source  sluice.Source `json:"source,omitempty"`
	Batch   int           `json:"batch"`
	Seconds float64       `json:"seconds"`
}

func newDriver() *driver {
	return &driver{events: []event{}, holds: map[string]*sluice.Hold{}}
}

func (d *driver) answer(text []byte) any {
	var read line
	if err := json.Unmarshal(text, &read); err != nil {
		return message{fmt.Sprintf("the line cannot be read: %v", err)}
	}
	switch {
	case read.Client != nil:
		if err := d.makeClient(read.Client); err != nil {
			return message{err.Error()}
		}
		return map[string]bool{"ok": true}
	case read.Events:
		d.mu.Lock()
		defer d.mu.Unlock()
		events := d.events
		d.events = []event{}
		return map[string][]event{"events": events}
	case d.client == nil:
		return message{"there is no client yet"}
	case read.Load != nil:
		return d.load(read.Load)
	case read.Do != nil:
		return map[string][]any{"results": d.doAll(read.Do)}
	}
	return message{"the line has none of client, do, events, load"}
}

func (d *driver) makeClient(read *clientLine) error {
	if d.client != nil {
		d.client.Close()
		d.client = nil
	}
	options := sluice.Options{
		URL:               read.URL,
		Token:             read.Token,
		Deadline:          given(read.DeadlineMs),
		OnFailure:         sluice.Fallback(read.OnFailure),
		MaxBatch:          givenNumber(read.MaxBatch),
		MaxInFlight:       givenNumber(read.MaxInFlight),
		RememberRefusals:  given(read.RememberRefusalsMs),
		MaxRemembered:     givenNumber(read.MaxRemembered),
		RetryAfterFailure: given(read.RetryAfterFailureMs),
		OnEvent:           d.note,
	}
	if read.CAFile != "" {
		authority, err := os.ReadFile(read.CAFile)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(authority) {
			return fmt.Errorf("caFile: expected certificates in PEM, got none in %s", read.CAFile)
		}
		options.TLS = &tls.Config{RootCAs: pool}
	}
	client, err := sluice.New(options)
	d.client = client
	return err
}

func (d *driver) note(e sluice.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, event{e.Call, e.Policy, e.Outcome, e.Source, e.Batch, e.Seconds})
}

// given returns a negative time for 0: in Go, the zero value means the default.
func given(ms *float64) time.Duration {
	if ms == nil {
		return 0
	}
	if *ms == 0 {
		return -time.Millisecond
	}
	return time.Duration(*ms * float64(time.Millisecond))
}

func givenNumber(number *int) int {
	if number == nil {
		return 0
	}
	if *number == 0 {
		return -1
	}
	return *number
}

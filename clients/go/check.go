// What is asked: a policy, a key, and what a call adds to them. A check is written as JSON once, when its call begins.

package sluice

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Check is one of several that CheckAll asks together. CheckOf makes it.
type Check struct {
	policy  string
	key     []string
	cost    *int64
	plan    *string
	peek    bool
	report  bool
	maxWait *time.Duration
	// Of a hold, which has no cost.
	slots *int64
	ttl   *time.Duration
}

// CheckOf returns a check for CheckAll.
func CheckOf(policy string, key []string, options ...CallOption) Check {
	check := Check{policy: policy}
	if key != nil {
		check.key = append([]string{}, key...)
	}
	for _, option := range options {
		option.apply(&check)
	}
	return check
}

// CallOption is what a check, a peek, a report or waiting may ask for besides policy and key.
type CallOption interface {
	apply(*Check)
	ofChecks()
}

// HoldOption is what a Hold may ask for besides policy and key.
type HoldOption interface {
	apply(*Check)
	ofHolds()
}

// AnyOption is what every call may ask for.
type AnyOption interface {
	CallOption
	HoldOption
}

type (
	costOption    int64
	planOption    string
	slotsOption   int64
	ttlOption     time.Duration
	maxWaitOption time.Duration
)

// Cost is how many units the call costs, to 2147483648. Without it, the policy's own cost applies. A Check that costs 0 only looks.
func Cost(units int64) CallOption { return costOption(units) }

// Plan is the name of the policy's plan that applies, if the policy is of the token's app and neither its key nor a consumer
// has the plan.
func Plan(name string) AnyOption { return planOption(name) }

// Slots is how many slots a Hold takes. Without it, the policy's own cost applies.
func Slots(number int64) HoldOption { return slotsOption(number) }

// TTL is how long a Hold has its slots unless they are renewed, which the client does: 1 s to the limit's own ttl, in whole milliseconds.
// Without it, the limit's own ttl applies.
func TTL(length time.Duration) HoldOption { return ttlOption(length) }

// MaxWait is how long a Hold waits in line for its slots: 1 ms to 60 s, in whole milliseconds.
func MaxWait(longest time.Duration) HoldOption { return maxWaitOption(longest) }

func (o costOption) apply(check *Check)    { units := int64(o); check.cost = &units }
func (o planOption) apply(check *Check)    { name := string(o); check.plan = &name }
func (o slotsOption) apply(check *Check)   { number := int64(o); check.slots = &number }
func (o ttlOption) apply(check *Check)     { ttl := time.Duration(o); check.ttl = &ttl }
func (o maxWaitOption) apply(check *Check) { longest := time.Duration(o); check.maxWait = &longest }
func (costOption) ofChecks()               {}
func (planOption) ofChecks()               {}
func (planOption) ofHolds()                {}
func (slotsOption) ofHolds()               {}
func (ttlOption) ofHolds()                 {}
func (maxWaitOption) ofHolds()             {}

// onlyLooks says whether the check charges nothing. A report of no units, and waiting for none, are the gateway's to refuse.
func (c *Check) onlyLooks() bool {
	return c.peek || c.costsNothing() && !c.report && c.maxWait == nil
}

func (c *Check) costsNothing() bool { return c.cost != nil && *c.cost == 0 }

// written returns the check as JSON.
func (c *Check) written() ([]byte, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	wire := struct {
		Policy  string    `json:"policy"`
		Key     *[]string `json:"key,omitempty"`
		Cost    *int64    `json:"cost,omitempty"`
		Slots   *int64    `json:"slots,omitempty"`
		TTL     string    `json:"ttl,omitempty"`
		Plan    *string   `json:"plan,omitempty"`
		Peek    bool      `json:"peek,omitempty"`
		Report  bool      `json:"report,omitempty"`
		MaxWait string    `json:"maxWait,omitempty"`
	}{Policy: c.policy, Cost: c.cost, Slots: c.slots, Plan: c.plan, Peek: c.onlyLooks(), Report: c.report}
	if c.key != nil {
		wire.Key = &c.key
	}
	if wire.Peek && c.costsNothing() {
		// To look at no units is to look at the policy's own cost.
		wire.Cost = nil
	}
	wire.TTL, wire.MaxWait = inMilliseconds(c.ttl), inMilliseconds(c.maxWait)
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	// The gateway counts the bytes of a body, and "<" would have six.
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(wire); err != nil {
		return nil, err
	}
	return bytes.TrimRight(text.Bytes(), "\n"), nil
}

// inMilliseconds returns the time as the gateway reads it; "" for none.
func inMilliseconds(length *time.Duration) string {
	if length == nil {
		return ""
	}
	return fmt.Sprintf("%dms", length.Milliseconds())
}

const longestMaxWait = 60 * time.Second

// validate refuses what JSON would change: it writes all bytes that are not UTF-8 as the same character, and two keys would share a counter.
func (c *Check) validate() error {
	if err := checkText("policy", c.policy); err != nil {
		return err
	}
	for i, value := range c.key {
		if err := checkText(fmt.Sprintf("key[%d]", i), value); err != nil {
			return err
		}
	}
	if c.plan != nil {
		if err := checkText("plan", *c.plan); err != nil {
			return err
		}
	}
	if c.ttl != nil && *c.ttl < time.Millisecond {
		return &OptionError{"ttl", "a time from 1ms", c.ttl.String()}
	}
	if c.maxWait != nil && (*c.maxWait < time.Millisecond || *c.maxWait > longestMaxWait) {
		return &OptionError{"maxWait", "a time from 1ms to 60s", c.maxWait.String()}
	}
	return nil
}

func checkText(argument, text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	return &OptionError{argument, "text in UTF-8", fmt.Sprintf("%q", text)}
}

// counter returns a text that two checks share only if policy, key and plan are the same.
func (c *Check) counter() string {
	var name strings.Builder
	add := func(text string) {
		name.WriteString(strconv.Itoa(len(text)))
		name.WriteByte(':')
		name.WriteString(text)
	}
	add(c.policy)
	for _, value := range c.key {
		add(value)
	}
	if c.plan != nil {
		name.WriteByte('+')
		add(*c.plan)
	}
	return name.String()
}

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
	maxWait *time.Duration
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

// HoldOption is what a Hold may ask for besides policy and key.
type HoldOption interface{ apply(*Check) }

// CallOption is what any call may ask for besides policy and key.
type CallOption interface {
	HoldOption
	ofAnyCall()
}

type (
	costOption    int64
	planOption    string
	maxWaitOption time.Duration
)

// Cost is how many units the call costs, from 1 to 2147483648. Without it, the policy's own cost applies.
func Cost(units int64) CallOption { return costOption(units) }

// Plan is the name of the policy's plan that applies, if the policy is of the token's app and neither its key nor a consumer
// has the plan.
func Plan(name string) CallOption { return planOption(name) }

// MaxWait is how long a Hold waits in line for its slots: 1 ms to 60 s, in whole milliseconds.
func MaxWait(longest time.Duration) HoldOption { return maxWaitOption(longest) }

func (o costOption) apply(check *Check)    { units := int64(o); check.cost = &units }
func (o planOption) apply(check *Check)    { name := string(o); check.plan = &name }
func (o maxWaitOption) apply(check *Check) { longest := time.Duration(o); check.maxWait = &longest }
func (costOption) ofAnyCall()              {}
func (planOption) ofAnyCall()              {}

// written returns the check as JSON.
func (c *Check) written() ([]byte, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	wire := struct {
		Policy  string    `json:"policy"`
		Key     *[]string `json:"key,omitempty"`
		Cost    *int64    `json:"cost,omitempty"`
		Plan    *string   `json:"plan,omitempty"`
		Peek    bool      `json:"peek,omitempty"`
		MaxWait string    `json:"maxWait,omitempty"`
	}{Policy: c.policy, Cost: c.cost, Plan: c.plan, Peek: c.peek}
	if c.key != nil {
		wire.Key = &c.key
	}
	if c.maxWait != nil {
		wire.MaxWait = fmt.Sprintf("%dms", c.maxWait.Milliseconds())
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	// The gateway counts the bytes of a body, and "<" would have six.
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(wire); err != nil {
		return nil, err
	}
	return bytes.TrimRight(text.Bytes(), "\n"), nil
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

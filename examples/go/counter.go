// Counts what became of the messages of each second, and prints a second when it is over.

package main

import (
	"encoding/json"
	"log"
	"os"
	"sync"
	"time"

	sluice "sluice/client"
)

type second struct {
	Service string `json:"service"`
	At      int64  `json:"at"`
	Allowed int    `json:"allowed"`
	Refused int    `json:"refused"`
	Failed  int    `json:"failed"`
}

type counter struct {
	mutex   sync.Mutex
	current second
}

// count counts in the second in which the answer came, and prints the second before when it is over.
func (c *counter) count(decision sluice.Decision, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if now := time.Now().Unix(); now != c.current.At {
		c.printCurrent()
		c.current = second{Service: "go", At: now}
	}
	switch {
	case err != nil:
		log.Print(err)
		c.current.Failed++
	case decision.Source == sluice.FromFailure:
		c.current.Failed++
	case decision.Allowed:
		c.current.Allowed++
	default:
		c.current.Refused++
	}
}

func (c *counter) print() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.printCurrent()
}

func (c *counter) printCurrent() {
	if c.current.At == 0 {
		return
	}
	if err := json.NewEncoder(os.Stdout).Encode(c.current); err != nil {
		log.Fatal(err)
	}
}

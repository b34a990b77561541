// Has 50 messages a second for a vendor that takes 40 a second from all services together, and asks Sluice before each one. It prints
// a line for each second: how many were allowed, refused, or failed to be asked about.

package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	sluice "sluice/client"
)

func main() {
	token, err := readToken()
	if err != nil {
		log.Fatal(err)
	}
	client, err := sluice.New(sluice.Options{
		URL:      os.Getenv("SLUICE_URL"),
		Token:    token,
		Deadline: 500 * time.Millisecond,
		// The vendor loses what exceeds its rate, so nothing is sent while nobody can be asked.
		OnFailure: sluice.Deny,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	var seconds counter
	defer seconds.print()
	var underWay sync.WaitGroup
	defer underWay.Wait()
	for number := 0; ; number++ {
		select {
		case <-stopped.Done():
			return
		case <-ticker.C:
			underWay.Add(1)
			go func(number int) {
				defer underWay.Done()
				seconds.count(send(client, number))
			}(number)
		}
	}
}

// send asks for one message. Every other message can wait for its turn for a moment. The others are sent now or not at all.
func send(client *sluice.Client, number int) (decision sluice.Decision, err error) {
	// Not the context that ends with the program: what is under way then is still answered.
	ctx := context.Background()
	if number%2 == 0 {
		decision, err = client.Check(ctx, "sms-vendor", nil)
	} else {
		decision, err = client.Acquire(ctx, "sms-vendor", nil, 250*time.Millisecond)
	}
	// An allowed message would go to the vendor here.
	return decision, err
}

func readToken() (string, error) {
	if token := os.Getenv("SLUICE_TOKEN"); token != "" {
		return token, nil
	}
	file := os.Getenv("SLUICE_TOKEN_FILE")
	if file == "" {
		return "", errors.New("SLUICE_TOKEN or SLUICE_TOKEN_FILE: expected a caller token or a file with one, got nothing")
	}
	token, err := os.ReadFile(file)
	return strings.TrimSpace(string(token)), err
}

// Package sluice asks a Sluice gateway whether something may be done now: it is a client of the gateway's check API. It relies on the standard
// library alone. A Client shares requests between calls, remembers refusals, and decides by itself when no gateway answers.
package sluice

import (
	"context"
	"sync"
)

// Client asks one gateway. It may be used by many goroutines at once.
type Client struct {
	settings settings
	gateway  *gateway
	pause    pause
	refusals *refusals
	batches  *batches
	// Its end stops all renewals of holds.
	open context.Context
	end  context.CancelFunc
	once sync.Once
}

// New returns a client, or an *OptionError that names the option that is wrong. It does not connect yet.
func New(options Options) (*Client, error) {
	settings, err := options.settings()
	if err != nil {
		return nil, err
	}
	client := &Client{
		settings: settings,
		gateway:  newGateway(settings),
		refusals: newRefusals(settings.rememberRefusals, settings.maxRemembered),
	}
	client.batches = newBatches(settings.maxInFlight, settings.maxBatch, client.askBatch)
	client.open, client.end = context.WithCancel(context.Background())
	return client, nil
}

// Close ends idle connections and the renewals of holds. Calls that are under way end as usual, later calls return ErrClosed. Holds are not
// released: release them before, or their slots are free after their ttl.
func (c *Client) Close() {
	c.once.Do(func() {
		c.end()
		c.gateway.close()
	})
}

func (c *Client) isClosed() bool {
	return c.open.Err() != nil
}

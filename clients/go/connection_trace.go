// Tells a kept connection that ended before anything of an answer came from a gateway that is away. It relies on net/http/httptrace.

package sluice

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// connectionTrace is what is known of the connection of one request. The transport reports from goroutines of its own.
type connectionTrace struct {
	isReused atomic.Bool
	isHeard  atomic.Bool
}

func (c *connectionTrace) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(info httptrace.GotConnInfo) { c.isReused.Store(info.Reused) },
		GotFirstResponseByte: func() { c.isHeard.Store(true) },
	})
}

func (c *connectionTrace) endedUnheard() bool {
	return c.isReused.Load() && !c.isHeard.Load()
}

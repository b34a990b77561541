// One POST to the gateway, and what came of it: an answer, an error of the caller, or a failure. It relies on net/http, which repeats a POST
// only if nothing of it was written, so a check that was perhaps charged is never sent twice.

package sluice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

const (
	checkPath   = "/sluice/v1/check"
	holdPath    = "/sluice/v1/hold"
	renewPath   = "/sluice/v1/renew"
	releasePath = "/sluice/v1/release"
)

const mostAnswerBytes = 1 << 20

// failure is why there is no answer.
type failure struct {
	sentence string
	// For how long the gateway wants not to be asked; 0: it did not say.
	retryAfter time.Duration
	// The gateway ended a connection that it had kept, as nginx does when it reloads: this says nothing about the next request.
	wasKept bool
}

func failed(format string, values ...any) *failure {
	return &failure{sentence: fmt.Sprintf(format, values...)}
}

type gateway struct {
	transport *http.Transport
	address   address
	header    http.Header
	closed    atomic.Bool
}

func newGateway(s settings) *gateway {
	header := http.Header{}
	header.Set("Authorization", "Bearer "+s.Token)
	header.Set("Content-Type", "application/json")
	header.Set("User-Agent", "sluice-go")
	return &gateway{transport: newTransport(s), address: s.address, header: header}
}

// post returns exactly one of the three. Redirects are not followed, because only http.Client follows them.
func (g *gateway) post(ctx context.Context, path string, body []byte) ([]byte, *Error, *failure) {
	request := (&http.Request{
		Method:        http.MethodPost,
		URL:           &url.URL{Scheme: g.address.scheme, Host: g.address.host, Path: path},
		Host:          g.address.host,
		Header:        g.header,
		Body:          io.NopCloser(bytes.NewReader(body)),
		GetBody:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
		ContentLength: int64(len(body)),
	})
	var connection connectionTrace
	response, err := g.transport.RoundTrip(request.WithContext(connection.trace(ctx)))
	if err != nil {
		failure := failed("The gateway did not answer: %v.", err)
		failure.wasKept = ctx.Err() == nil && connection.endedUnheard()
		return nil, nil, failure
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		// Its body is the connection itself, which the end of the context does not close.
		response.Body.Close()
		return nil, nil, failed("The gateway answered with status %d, which decides nothing.", response.StatusCode)
	}
	answer, err := readBody(response)
	if g.closed.Load() {
		// The transport would keep this connection for the next request, and there is none.
		g.transport.CloseIdleConnections()
	}
	if err == errTooLarge {
		return nil, nil, failed("The gateway's answer is larger than %d bytes.", mostAnswerBytes)
	}
	if err != nil {
		return nil, nil, failed("The gateway's answer ended early: %v.", err)
	}
	if response.StatusCode == http.StatusOK {
		return answer, nil, nil
	}
	if isMistake(response.StatusCode) && isProblemDocument(response.Header) {
		if problem := readProblem(response.StatusCode, answer); problem != nil {
			return nil, problem, nil
		}
	}
	failure := failed("The gateway answered with status %d, which decides nothing.", response.StatusCode)
	if response.StatusCode == http.StatusServiceUnavailable || response.StatusCode == http.StatusTooManyRequests {
		failure.retryAfter = readRetryAfter(response.Header.Get("Retry-After"))
	}
	return nil, nil, failure
}

var errTooLarge = errors.New("too large")

func readBody(response *http.Response) ([]byte, error) {
	defer response.Body.Close()
	if response.ContentLength > mostAnswerBytes {
		return nil, errTooLarge
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, mostAnswerBytes+1))
	if err == nil && len(answer) > mostAnswerBytes {
		err = errTooLarge
	}
	return answer, err
}

func (g *gateway) close() {
	g.closed.Store(true)
	g.transport.CloseIdleConnections()
}

func isMistake(status int) bool {
	switch status {
	case 400, 401, 403, 404, 405, 413, 415:
		return true
	}
	return false
}

func isProblemDocument(header http.Header) bool {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	return err == nil && strings.EqualFold(kind, "application/problem+json")
}

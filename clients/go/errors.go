// Errors are the caller's mistakes: what the gateway does not accept, options that are wrong, calls after Close. That nobody answers is no
// error, but a decision of source "failure".

package sluice

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrClosed is returned by calls after Close.
var ErrClosed = errors.New("sluice: the client is closed")

// Error is what the gateway answered to a request that it does not accept. Nothing was charged.
type Error struct {
	// Code keeps its meaning; docs/operations.md lists all.
	Code   string
	Status int
	Detail string
	// Errors have paths that begin at the check, for example key[1]; those of CheckAll begin at the list: checks[2].key[1].
	Errors []Problem
}

// Problem is one field of a request that is wrong.
type Problem struct {
	Path     string `json:"path"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "sluice: %d %s: %s", e.Status, e.Code, e.Detail)
	for _, problem := range e.Errors {
		fmt.Fprintf(&text, " %s: expected %s, got %s.", problem.Path, problem.Expected, problem.Got)
	}
	return text.String()
}

// OptionError is an option or an argument that is wrong.
type OptionError struct {
	Option   string
	Expected string
	Got      string
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("sluice: %s: expected %s, got %s", e.Option, e.Expected, e.Got)
}

// mostProblems is what a gateway says at most: a hundred, and how many others there are. Each check of a request may get a copy.
const mostProblems = 101

// readProblem returns nil if the body is no problem document of Sluice: then somebody else answered.
func readProblem(status int, body []byte) *Error {
	var document struct {
		Code   string          `json:"code"`
		Detail string          `json:"detail"`
		Errors json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(body, &document) != nil || document.Code == "" {
		return nil
	}
	problem := &Error{Code: document.Code, Status: status, Detail: document.Detail}
	if json.Unmarshal(document.Errors, &problem.Errors) != nil {
		problem.Errors = nil
	}
	if len(problem.Errors) > mostProblems {
		problem.Errors = append([]Problem(nil), problem.Errors[:mostProblems]...)
	}
	return problem
}

// ofCheck returns the error of one check of several, with paths as relativeTo writes them; nil if the error does not name it.
func (e *Error) ofCheck(index int) *Error {
	own := *e
	own.Errors = nil
	for _, problem := range e.Errors {
		if path, isOwn := pathIn(problem.Path, index); isOwn {
			problem.Path = path
			own.Errors = append(own.Errors, problem)
		}
	}
	if own.Errors == nil {
		return nil
	}
	return &own
}

// relativeTo returns the error with paths that begin at the check: its caller does not know which place it had in a request. Others stay.
func (e *Error) relativeTo(index int) *Error {
	relative := *e
	relative.Errors = append([]Problem(nil), e.Errors...)
	for i := range relative.Errors {
		relative.Errors[i].Path, _ = pathIn(relative.Errors[i].Path, index)
	}
	return &relative
}

// pathIn returns the path without the place of the check, and whether the path had it.
func pathIn(path string, index int) (string, bool) {
	prefix := fmt.Sprintf("checks[%d]", index)
	if !strings.HasPrefix(path, prefix) {
		return path, false
	}
	return strings.TrimPrefix(strings.TrimPrefix(path, prefix), "."), true
}

//go:build !linux

// Package nap sleeps for less than a millisecond.
package nap

import "time"

// For sleeps for d.
func For(d time.Duration) { time.Sleep(d) }

//go:build suites

// Package suites pins the clients whose own tests run against our nodes.
package suites

import (
	_ "github.com/IBM/sarama"
	_ "github.com/twmb/franz-go/pkg/kgo"
)

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// copyWithFranz copies with franz-go's session of a consumer group and a transactional producer. Every fourth
// transaction is aborted: the session then reads its records again.
func copyWithFranz(ctx context.Context, copying job) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(copying.servers...),
		kgo.TransactionalID(copying.id),
		kgo.ConsumerGroup(copying.id),
		kgo.ConsumeTopics(copying.input),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RequireStableFetchOffsets(),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for copied, transaction := 0, 1; copied < copying.count; transaction++ {
		records := session.PollRecords(ctx, 100)
		if err := records.Err(); err != nil {
			return err
		}
		if records.NumRecords() == 0 {
			transaction--
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		var failed kgo.FirstErrPromise
		records.EachRecord(func(record *kgo.Record) {
			output := &kgo.Record{Topic: copying.output, Key: record.Key, Value: record.Value}
			session.Produce(ctx, output, failed.Promise())
		})
		isWanted := failed.Err() == nil && transaction%4 != 0
		isCommitted, err := session.End(ctx, kgo.TransactionEndTry(isWanted))
		if err != nil {
			return err
		}
		if isCommitted {
			copied += records.NumRecords()
		} else {
			fmt.Println("aborted")
		}
	}
	return nil
}

// fenceWithFranz lets a second producer take the transactional id over while the first has an open transaction.
func fenceWithFranz(ctx context.Context, copying job) error {
	var producers []*kgo.Client
	for range 2 {
		producer, err := kgo.NewClient(
			kgo.SeedBrokers(copying.servers...), kgo.TransactionalID(copying.id+"-fenced"),
			kgo.DefaultProduceTopic(copying.output),
		)
		if err != nil {
			return err
		}
		defer producer.Close()
		producers = append(producers, producer)
		if err := producer.BeginTransaction(); err != nil {
			return err
		}
		if err := producer.ProduceSync(ctx, kgo.StringRecord("open")).FirstErr(); err != nil {
			return err
		}
	}
	if err := producers[1].EndTransaction(ctx, kgo.TryAbort); err != nil {
		return err
	}
	err := producers[0].EndTransaction(ctx, kgo.TryCommit)
	if !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
		return fmt.Errorf("the fenced producer received %v", err)
	}
	fmt.Println("fenced")
	return nil
}

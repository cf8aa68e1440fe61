package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

func saramaConfig(id string) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Transaction.ID = id
	config.Net.MaxOpenRequests = 1
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	return config
}

// copyWithSarama copies with a consumer group and a transactional producer for each claim. Every fourth transaction is
// aborted and done again.
func copyWithSarama(ctx context.Context, copying job) error {
	group, err := sarama.NewConsumerGroup(copying.servers, copying.id, saramaConfig(""))
	if err != nil {
		return err
	}
	defer group.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	copier := &saramaCopier{job: copying, done: make(chan error, 16), copied: make(chan int, 16)}
	go func() {
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{copying.input}, copier); err != nil {
				copier.done <- err
				return
			}
		}
	}()
	for total := 0; total < copying.count; {
		select {
		case count := <-copier.copied:
			total += count
		case err := <-copier.done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

type saramaCopier struct {
	job    job
	done   chan error
	copied chan int
}

func (*saramaCopier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*saramaCopier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (copier *saramaCopier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	id := fmt.Sprintf("%s-%d", copier.job.id, claim.Partition())
	producer, err := sarama.NewSyncProducer(copier.job.servers, saramaConfig(id))
	if err != nil {
		copier.done <- err
		return err
	}
	defer producer.Close()
	transaction := 1
	for {
		batch := nextBatch(session.Context(), claim)
		if len(batch) == 0 {
			return nil
		}
		if transaction%4 == 0 {
			if err := copier.copyBatch(producer, batch, false); err != nil {
				copier.done <- err
				return err
			}
			fmt.Println("aborted")
			transaction++
		}
		if err := copier.copyBatch(producer, batch, true); err != nil {
			copier.done <- err
			return err
		}
		transaction++
		copier.copied <- len(batch)
	}
}

// nextBatch returns the messages that are there, at most 50, and at least one unless the session ends.
func nextBatch(ctx context.Context, claim sarama.ConsumerGroupClaim) (batch []*sarama.ConsumerMessage) {
	select {
	case message, isOpen := <-claim.Messages():
		if !isOpen {
			return nil
		}
		batch = append(batch, message)
	case <-ctx.Done():
		return nil
	}
	for len(batch) < 50 {
		select {
		case message, isOpen := <-claim.Messages():
			if !isOpen {
				return batch
			}
			batch = append(batch, message)
		default:
			return batch
		}
	}
	return batch
}

func (copier *saramaCopier) copyBatch(producer sarama.SyncProducer, batch []*sarama.ConsumerMessage, isCommit bool) error {
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	for _, message := range batch {
		output := &sarama.ProducerMessage{
			Topic: copier.job.output, Key: sarama.ByteEncoder(message.Key), Value: sarama.ByteEncoder(message.Value),
		}
		if _, _, err := producer.SendMessage(output); err != nil {
			return err
		}
		if err := producer.AddMessageToTxn(message, copier.job.id, nil); err != nil {
			return err
		}
	}
	if isCommit {
		return producer.CommitTxn()
	}
	return producer.AbortTxn()
}

// fenceWithSarama lets a second producer take the transactional id over while the first has an open transaction.
func fenceWithSarama(_ context.Context, copying job) error {
	var producers []sarama.SyncProducer
	for range 2 {
		producer, err := sarama.NewSyncProducer(copying.servers, saramaConfig(copying.id+"-fenced"))
		if err != nil {
			return err
		}
		defer producer.Close()
		producers = append(producers, producer)
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		message := &sarama.ProducerMessage{Topic: copying.output, Value: sarama.StringEncoder("open")}
		if _, _, err := producer.SendMessage(message); err != nil {
			return err
		}
	}
	if err := producers[1].AbortTxn(); err != nil {
		return err
	}
	err := producers[0].CommitTxn()
	if !errors.Is(err, sarama.ErrInvalidProducerEpoch) && !errors.Is(err, sarama.ErrProducerFenced) {
		return fmt.Errorf("the fenced producer received %v", err)
	}
	fmt.Println("fenced")
	return nil
}

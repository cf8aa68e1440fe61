// Transactions of Go's clients. It copies a topic exactly once, with offsets in the transactions; then a second producer
// fences a first one with the same transactional id.
//
// Arguments: franz or sarama, bootstrap servers, input, output, number of records. Prints a line for each aborted
// transaction, "copied" and "fenced".
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

type job struct {
	servers           []string
	id, input, output string
	count             int
}

type steps struct {
	copyAll, fence func(context.Context, job) error
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	client := map[string]steps{
		"franz":  {copyWithFranz, fenceWithFranz},
		"sarama": {copyWithSarama, fenceWithSarama},
	}[args[0]]
	count, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	copying := job{strings.Split(args[1], ","), args[0], args[2], args[3], count}
	if err := client.copyAll(ctx, copying); err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	fmt.Println("copied")
	if err := client.fence(ctx, copying); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	return nil
}

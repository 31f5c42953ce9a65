// Package dataflow runs deltad over the worked example of the Dataflow Model
// (Akidau et al., VLDB 2015, section 2.4): ten values of one key, each with an
// event time and a time of arrival, summed. The paper's figures say what comes
// out, so nothing here computes an expectation.
//
// The values are dropped one by one by a clock that the test moves, and the real
// binary takes its steps by the same clock. Panes accumulate: they are the
// figures of the micro-batch. Windows of event time are a column of the key, or
// partitions of the source where producers write them so. Sessions and
// retractions are not built.
package dataflow

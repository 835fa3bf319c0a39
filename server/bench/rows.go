package main

import "slices"

// rows returns the table, in the order it is printed in.
func rows(databases contents) []row {
	return slices.Concat(
		roundTripRows(), callRows(), jwtRows(), meteringRows(), startRows(), idleRows(), throughputRows(), exchangeRows(), allocationRows(), gatewayRows(),
		contentRows(databases), importRows(databases),
	)
}

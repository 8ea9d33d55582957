/** What waits for the network, as suspend functions; where a device stands, as a Flow. */
@file:JvmName("Coroutines")

package io.fedrap.kotlin

import io.fedrap.core.Conditions
import io.fedrap.core.Erased
import io.fedrap.core.Exported
import io.fedrap.core.FedRap
import io.fedrap.core.RoundReport
import io.fedrap.core.Status
import java.io.File
import kotlin.time.Duration
import kotlin.time.Duration.Companion.seconds
import kotlin.time.DurationUnit
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.withContext

/** [FedRap.sync] off the main thread; cancelling it stops the request. */
public suspend fun FedRap.awaitSync(dispatcher: CoroutineDispatcher = Dispatchers.IO): Unit =
    stopping(dispatcher) { sync() }

/**
 * [FedRap.runRound] off the main thread. Cancelling it stops the round, which resumes where it was when it
 * is run again, and is charged once.
 */
public suspend fun FedRap.awaitRound(
    wait: Duration = Duration.ZERO,
    conditions: Conditions = Conditions.ALWAYS,
    dispatcher: CoroutineDispatcher = Dispatchers.IO,
): RoundReport = stopping(dispatcher) { runRound(wait.toDouble(DurationUnit.SECONDS), conditions) }

/** [FedRap.answerQuestions] off the main thread; cancelling it stops the request. */
public suspend fun FedRap.awaitAnswers(dispatcher: CoroutineDispatcher = Dispatchers.IO): Int =
    stopping(dispatcher) { answerQuestions() }

/** [FedRap.erase] off the main thread; it is not cut short. */
public suspend fun FedRap.awaitErase(dispatcher: CoroutineDispatcher = Dispatchers.IO): Erased =
    withContext(dispatcher) { erase() }

/** [FedRap.export] off the main thread. */
public suspend fun FedRap.awaitExport(
    file: File,
    dispatcher: CoroutineDispatcher = Dispatchers.IO,
): Exported = withContext(dispatcher) { export(file) }

/** Where the device stands, now and whenever that has changed, until it is closed. */
public fun FedRap.statuses(every: Duration = 1.seconds): Flow<Status> = flow {
    var last: List<Any?>? = null
    while (isOpen) {
        val now = status()
        val said =
            listOf(
                now.consented, now.fetching, now.enrolled, now.interactions, now.hidden, now.release,
                now.rounds, now.answers, now.pending, now.blockedBy, now.setAside.size,
            )
        if (said != last) {
            last = said
            emit(now)
        }
        delay(every)
    }
}

private suspend fun <T> FedRap.stopping(dispatcher: CoroutineDispatcher, call: FedRap.() -> T): T =
    coroutineScope {
        val running = async(dispatcher) { call() }
        try {
            running.await()
        } catch (cancelled: CancellationException) {
            stop() // the call that blocks ends with it
            throw cancelled
        }
    }

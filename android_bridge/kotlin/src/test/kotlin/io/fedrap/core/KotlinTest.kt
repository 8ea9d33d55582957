package io.fedrap.core

import io.fedrap.kotlin.awaitAnswers
import io.fedrap.kotlin.awaitErase
import io.fedrap.kotlin.awaitExport
import io.fedrap.kotlin.awaitRound
import io.fedrap.kotlin.awaitSync
import io.fedrap.kotlin.kinds
import io.fedrap.kotlin.statuses
import io.fedrap.kotlin.wish
import java.io.File
import java.nio.file.Path
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import kotlin.time.Duration.Companion.milliseconds
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.yield
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

/** A device from Kotlin: coroutines that end when they are told to, nulls that the compiler knows of. */
class KotlinTest {
    @TempDir lateinit var folder: Path
    private val coordinator = MadeCoordinator()

    private fun device(): FedRap {
        val config = Config(folder.toFile()).token("token").kinds(kinds("view" to 1.0, "hide" to null))
        config.transport = coordinator
        return FedRap.open(config)
    }

    @Test
    fun roundsListsAndTheEndWithoutBlockingACaller() = runBlocking {
        coordinator.version = 2
        coordinator.step = 8
        device().use { device ->
            assertNull(device.status().fetching) // a Boolean? to the compiler
            device.consent(true, true, "v1")
            device.record("item-1")
            device.awaitSync()
            val found = device.recommend(wish(3) { exclude(listOf("item-2")).explain(true) })
            assertEquals(3, found.size)
            assertFalse(found.any { it.item == "item-2" })
            assertTrue(device.awaitRound().joined)
            assertEquals(0, device.awaitAnswers()) // nobody agreed to that
            assertEquals(8, device.awaitExport(File(folder.toFile(), "mine.zip")).files.size)
            assertTrue(device.awaitErase().coordinatorConfirmed)
        }
    }

    @Test
    fun aStatusFollowsWhatHappens() = runBlocking {
        device().use { device ->
            val seen = launch(Dispatchers.IO) {
                val two = device.statuses(5.milliseconds).take(2).toList()
                assertEquals(listOf(0, 1), two.map { it.interactions })
            }
            device.statuses(5.milliseconds).first()
            kotlinx.coroutines.delay(50)
            device.record("item-1")
            seen.join()
        }
    }

    @Test
    fun cancellingARoundStopsIt() = runBlocking {
        val asked = CountDownLatch(1)
        device().use { device ->
            device.consent(true, "v1")
            device.record("item-1")
            coordinator.whileAnswering["offer"] = Runnable {
                asked.countDown()
                while (!stopped(device)) Thread.sleep(5)
            }
            val round = launch { device.awaitRound() }
            launch(Dispatchers.IO) { assertTrue(asked.await(60, TimeUnit.SECONDS)) }.join()
            round.cancel()
            repeat(10) { yield() } // the cancelled coroutine, which waits in this thread, stops the device
            stopping = true
            round.join()
            assertTrue(round.isCancelled)
            assertEquals(0, coordinator.sent.size)
        }
    }

    @Volatile private var stopping = false

    private fun stopped(device: FedRap): Boolean = stopping && device.isOpen
}

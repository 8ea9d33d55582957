plugins {
    id("com.android.library")
}

// The graph of the Python SDK, the one file for both languages.
val graph by tasks.registering(Sync::class) {
    from("../../sdk/fedrap/assets") {
        include("solve_v1.onnx", "sequence_v1.onnx")
        into("io/fedrap/ort")
    }
    into(layout.buildDirectory.dir("graph"))
}

android {
    namespace = "io.fedrap.ort"
    compileSdk = 34
    defaultConfig {
        minSdk = 26
        consumerProguardFiles("consumer-rules.pro")
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }
    sourceSets["main"].resources.srcDir(graph)
}

dependencies {
    api(project(":fedrap-core"))
    // The app brings it: `implementation`, after this library, so that its telemetry stays out.
    compileOnly("com.microsoft.onnxruntime:onnxruntime-android:1.28.0")
}

// For an app developer's own machine, where there is an Android SDK: `gradle assemble` gives
// fedrap-core.jar, fedrap-measure.jar, fedrap-split.jar, fedrap-android.aar, fedrap-ort.aar and the sample's APK. Or name this folder in an
// app's settings.gradle.kts: includeBuild("../fedrap/android_bridge"), and the app finds
// "io.fedrap:fedrap-android" here. Tests run with Maven; tests/android keeps both in step.
pluginManagement {
    repositories {
        google()
        mavenCentral()
        gradlePluginPortal()
    }
}

dependencyResolutionManagement {
    repositories {
        google()
        mavenCentral()
    }
}

rootProject.name = "fedrap-parent"

for (module in listOf("core", "ort", "measure", "split", "android", "sample")) {
    include(":fedrap-$module")
    project(":fedrap-$module").projectDir = file(module)
}
